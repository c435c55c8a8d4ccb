#include "worker/preparation/code_cache.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/hmac.h"
#include "common/hash/sha256.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::worker {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr size_t kSizeFileBytesMax = 32;
constexpr mode_t kClosed = 0700;
constexpr mode_t kPassableCode = 0711;  // others can enter a name that they know, but not list
// A disk that is filled to the last byte harms others.

std::string SizeFile(const std::string& entry) { return entry + "/size"; }

absl::Status MakeWithMode(const std::string& path, mode_t mode) {
  RETURN_IF_ERROR(common::MakeDirectories(path, static_cast<int>(mode)));
  if (chmod(path.c_str(), mode) == 0) return absl::OkStatus();
  return common::ErrnoStatus(common::StrCat("cannot change the mode of ", path));
}

void RemoveAll(const std::string& path) {
  if (const absl::Status removed = common::RemoveTree(path); !removed.ok()) {
    common::LogWarning(common::StrCat("not removed reason=\"", common::MessageOf(removed), "\""));
  }
}

uint64_t FreeBytes(const std::string& path) {
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) != 0) return UINT64_MAX;
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

// "…/setups/KEY" or "…/images/HASH" that the attempt's link leads to; empty: it has none.
std::string LinkOfAttempt(const std::string& attempt, std::string_view link) {
  char target[4096];
  const ssize_t count = readlink(common::StrCat(attempt, "/", link).c_str(), target, sizeof target);
  return count > 0 ? std::string(target, static_cast<size_t>(count)) : "";
}

}  // namespace

CodeCache::Pin::Pin(std::shared_ptr<Held> held, std::string path)
    : held_(std::move(held)), path_(std::move(path)) {
  std::lock_guard<std::mutex> lock(held_->mutex);
  ++held_->uses[path_];
}

CodeCache::Pin& CodeCache::Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  Release();
  held_ = std::move(other.held_);
  path_ = std::move(other.path_);
  return *this;
}

void CodeCache::Pin::Release() {
  if (held_ == nullptr) return;
  std::lock_guard<std::mutex> lock(held_->mutex);
  const auto found = held_->uses.find(path_);
  if (--found->second == 0) held_->uses.erase(found);
  held_ = nullptr;
}

absl::Status CodeCache::Open() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_open_) return absl::OkStatus();
  const mode_t way = options_.for_others ? kPassableCode : kClosed;
  const std::string code = paths_.CodeDir();
  RETURN_IF_ERROR(MakeWithMode(code, way));
  RETURN_IF_ERROR(MakeWithMode(paths_.CodeSetups(), way));
  RETURN_IF_ERROR(MakeWithMode(paths_.CodeTrees(), kClosed));
  RETURN_IF_ERROR(MakeWithMode(paths_.CodeImages(), kClosed));
  RETURN_IF_ERROR(MakeWithMode(code + "/garbage", kClosed));
  RemoveAll(code + "/new");
  RETURN_IF_ERROR(MakeWithMode(code + "/new", kClosed));
  RETURN_IF_ERROR(OpenSecret());
  is_open_ = true;
  if (const auto left = common::ListDirectory(code + "/garbage"); left.ok()) {
    for (const std::string& name : *left) RemoveAll(common::StrCat(code, "/garbage/", name));
  }
  return absl::OkStatus();
}

absl::Status CodeCache::OpenSecret() {
  const std::string path = paths_.CodeDir() + "/secret";
  if (auto known = common::ReadFile(path, 2 * kSecretBytes);
      known.ok() && common::IsSha256Hex(*known)) {
    secret_ = *std::move(known);
    return absl::OkStatus();
  }
  std::string bytes(kSecretBytes, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return common::ErrnoStatus("cannot read random bytes");
  }
  secret_ = absl::BytesToHexString(bytes);
  return common::WriteFileDurably(path, secret_);
}

std::string CodeCache::TreePath(std::string_view project, std::string_view tree) const {
  return common::StrCat(paths_.CodeTrees(), "/", common::Sha256Hex(project), "-", tree);
}

std::string CodeCache::ImagePath(std::string_view manifest) const {
  return common::StrCat(paths_.CodeImages(), "/", manifest);
}

std::string CodeCache::SetupPath(const std::vector<std::string>& facts) const {
  std::string bytes;
  for (const std::string& fact : facts) common::StrAppend(&bytes, fact.size(), ":", fact, ",");
  return common::StrCat(paths_.CodeSetups(), "/", common::HmacSha256Hex(secret_, bytes));
}

CodeCache::Pin CodeCache::Hold(const std::string& path) {
  // Under the lock: no entry may come into use between Collect's check of what is used and its move to
  // garbage/.
  std::lock_guard<std::mutex> lock(mutex_);
  return Pin(held_, path);
}

bool CodeCache::Use(const std::string& path) const {
  return utimensat(AT_FDCWD, SizeFile(path).c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::Status CodeCache::Complete(const std::string& path, uint64_t bytes) const {
  // After a power failure a copy that was not synced may have the right size and wrong bytes.
  const common::UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || syncfs(directory.get()) != 0) {
    return common::ErrnoStatus(common::StrCat("cannot sync ", path));
  }
  return common::WriteFileDurably(SizeFile(path), common::StrCat(bytes));
}

std::string CodeCache::ToGarbage(const std::string& path) {
  const std::string garbage =
      common::StrCat(paths_.CodeDir(), "/garbage/", getpid(), "-", ++last_number_);
  return rename(path.c_str(), garbage.c_str()) == 0 ? garbage : "";
}

void CodeCache::Discard(const std::string& path) {
  std::string garbage;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    garbage = ToGarbage(path);
  }
  if (!garbage.empty()) RemoveAll(garbage);
}

absl::StatusOr<std::string> CodeCache::NewDirectory() {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string path = common::StrCat(paths_.CodeDir(), "/new/", ++last_number_);
  if (mkdir(path.c_str(), kClosed) == 0) return path;
  return common::ErrnoStatus(common::StrCat("cannot create ", path));
}

std::vector<CodeCache::Entry> CodeCache::Unused(uint64_t* total) const {
  std::set<std::string> used;
  {
    std::lock_guard<std::mutex> lock(held_->mutex);
    for (const auto& [path, count] : held_->uses) used.insert(path);
  }
  if (const auto attempts = common::ListDirectory(paths_.Attempts()); attempts.ok()) {
    for (const std::string& name : *attempts) {
      for (const std::string_view link : {"setup", "image"})
        used.insert(LinkOfAttempt(common::StrCat(paths_.Attempts(), "/", name), link));
    }
  }
  std::vector<Entry> unused;
  for (const std::string& directory :
       {paths_.CodeTrees(), paths_.CodeSetups(), paths_.CodeImages()}) {
    const auto names = common::ListDirectory(directory);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      Entry entry{.path = common::StrCat(directory, "/", name)};
      struct stat info {};
      const auto size = common::ReadFile(SizeFile(entry.path), kSizeFileBytesMax);
      // An entry that is neither complete nor used counts as the oldest.
      if (size.ok() && absl::SimpleAtoi(*size, &entry.bytes) &&
          stat(SizeFile(entry.path).c_str(), &info) == 0) {
        entry.used_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
      }
      *total += entry.bytes;
      if (!used.contains(entry.path)) unused.push_back(std::move(entry));
    }
  }
  std::sort(unused.begin(), unused.end(),
            [](const Entry& a, const Entry& b) { return a.used_ns < b.used_ns; });
  return unused;
}

void CodeCache::RemoveWhile(const std::function<bool(uint64_t total)>& wanted) {
  uint64_t total = 0;
  std::vector<Entry> unused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    unused = Unused(&total);
  }
  for (const Entry& entry : unused) {
    if (!wanted(total)) return;
    std::string garbage;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      // It may have come into use by now.
      uint64_t ignored = 0;
      const std::vector<Entry> now = Unused(&ignored);
      const bool is_unused = std::any_of(
          now.begin(), now.end(), [&](const Entry& each) { return each.path == entry.path; });
      if (is_unused) garbage = ToGarbage(entry.path);
    }
    if (garbage.empty()) continue;
    RemoveAll(garbage);
    total -= entry.bytes;
  }
}

void CodeCache::Collect() {
  RemoveWhile([this](uint64_t total) { return total > options_.bytes_max; });
}

absl::Status CodeCache::MakeRoom(std::string_view what, uint64_t bytes) {
  const std::string code = paths_.CodeDir();
  const uint64_t needed =
      bytes > UINT64_MAX - kCacheSpareBytes ? UINT64_MAX : bytes + kCacheSpareBytes;
  if (FreeBytes(code) >= needed) return absl::OkStatus();
  RemoveWhile([&](uint64_t) { return FreeBytes(code) < needed; });
  const uint64_t free = FreeBytes(code);
  if (free >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(common::StrCat(
      "node ", options_.node, " has no room for ", what, ": ", code, " needs ",
      common::HumanBytes(needed), ", and ", common::HumanBytes(free),
      " are free, without what no attempt uses; fix: free space on that disk, or start its worker "
      "with a --state-dir on a larger one"));
}

}  // namespace muster::worker
