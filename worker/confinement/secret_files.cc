#include "worker/confinement/secret_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/hex.h"
#include "common/hash/sha256.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/keys.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr std::string_view kMemoryFiles = "/dev/shm";
constexpr std::string_view kRootPrefix = "/muster-";
constexpr size_t kHashDigits = 16;
constexpr size_t kRandomBytes = 16;
constexpr size_t kNameBytesMax = 64;
constexpr size_t kValueBytesMax = 64 << 10;
constexpr size_t kHiddenBytesLeast = 4;
constexpr std::string_view kHiddenText = "(hidden)";
// Ranks of another account can pass through, but not list it.
constexpr mode_t kPassedThrough = 0711;

// The name that workers up to 0.2.0, whose attempts may still run, derived from the state directory.
std::string OlderRoot(const Paths& paths) {
  return StrCat(kMemoryFiles, kRootPrefix,
                common::Sha256Hex(paths.StateDir()).substr(0, kHashDigits));
}

// Empty: no secret was written since there are random names.
std::string NamedRoot(const Paths& paths) {
  const auto name = common::ReadFile(paths.SecretsRootName(), kNameBytesMax);
  return name.ok() && common::IsPathName(*name) ? StrCat(kMemoryFiles, kRootPrefix, *name) : "";
}

std::string DirectoryName(const AttemptKey& key) { return StrCat(key.job, "-", key.attempt); }

bool IsOurDirectory(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// Only these are searched or removed: another user's directory may be a link to the worker's files
// elsewhere.
std::vector<std::string> OwnRoots(const Paths& paths) {
  std::vector<std::string> roots;
  for (const std::string& root : {OlderRoot(paths), NamedRoot(paths)}) {
    if (!root.empty() && IsOurDirectory(root)) roots.push_back(root);
  }
  return roots;
}

// The directory of the attempt's secrets; of attempts that an older worker launched, in the first root.
std::optional<std::string> FindSecrets(const Paths& paths, const AttemptKey& key) {
  for (const std::string& root : OwnRoots(paths)) {
    const std::string directory = StrCat(root, "/", DirectoryName(key));
    if (IsOurDirectory(directory)) return directory;
  }
  return std::nullopt;
}

// Makes a directory of ours. Everyone can write to /dev/shm, so another user may have made one of that
// name.
absl::Status MakeOwnDirectory(const std::string& path) {
  if (mkdir(path.c_str(), kPassedThrough) != 0 && errno != EEXIST) {
    return common::ErrnoStatus(StrCat("cannot create ", path));
  }
  if (!IsOurDirectory(path)) {
    return absl::FailedPreconditionError(StrCat(path, " is another user's; fix: remove it"));
  }
  if (chmod(path.c_str(), kPassedThrough) != 0) return common::ErrnoStatus(path);
  return absl::OkStatus();
}

// While the directory exists everyone can read its name, and take the name once it is gone: then the
// directory gets another name.
absl::Status MakeRoot(const Paths& paths) {
  const std::string named = NamedRoot(paths);
  if (!named.empty() && MakeOwnDirectory(named).ok()) return absl::OkStatus();
  RETURN_IF_ERROR(common::WriteFileDurably(paths.SecretsRootName(),
                                           common::ToHex(identity::RandomBytes(kRandomBytes))));
  return MakeOwnDirectory(NamedRoot(paths));
}

absl::Status CheckMemory() {
  struct statfs system {};
  if (statfs(std::string(kMemoryFiles).c_str(), &system) == 0 && system.f_type == TMPFS_MAGIC) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(StrCat("secrets are kept in memory, and ", kMemoryFiles,
                                              " is not a tmpfs; fix: mount one there"));
}

absl::Status WriteSecret(const std::string& path, const std::string& value,
                         const common::LaunchAccount& account) {
  const common::UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
  if (!file.valid()) return common::ErrnoStatus(StrCat("cannot create ", path));
  RETURN_IF_ERROR(common::WriteAll(file.get(), value));
  if (account.is_other && fchown(file.get(), account.uid, account.gid) != 0) {
    return common::ErrnoStatus(StrCat("cannot hand over ", path));
  }
  return absl::OkStatus();
}

}  // namespace

bool HoldsSecrets(std::string_view path) {
  return common::IsWithin(kMemoryFiles, path) ||
         path.starts_with(StrCat(kMemoryFiles, kRootPrefix));
}

std::string SecretsDir(const Paths& paths, const AttemptKey& key) {
  if (const std::optional<std::string> found = FindSecrets(paths, key)) return *found;
  const std::string named = NamedRoot(paths);
  return StrCat(named.empty() ? OlderRoot(paths) : named, "/", DirectoryName(key));
}

absl::Status WriteSecrets(const Paths& paths, const AttemptKey& key,
                          const v1::LaunchAttempt& launch, const common::LaunchAccount& account) {
  if (launch.spec().secrets().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckMemory());
  RETURN_IF_ERROR(MakeRoot(paths));
  const std::string directory = SecretsDir(paths, key);
  RETURN_IF_ERROR(common::RemoveTree(directory));
  RETURN_IF_ERROR(MakeOwnDirectory(directory));
  for (const std::string& name : launch.spec().secrets()) {
    const auto value = launch.secrets().find(name);
    if (value == launch.secrets().end()) {
      return absl::FailedPreconditionError(
          StrCat("the value of secret ", name,
                 " did not come with the launch; fix: jobctl secret "
                 "ls; it may have been removed since the job was submitted"));
    }
    RETURN_IF_ERROR(WriteSecret(StrCat(directory, "/", name), value->second, account));
  }
  return absl::OkStatus();
}

void RemoveSecrets(const Paths& paths, const AttemptKey& key) {
  for (const std::string& root : OwnRoots(paths)) {
    common::RemoveTree(StrCat(root, "/", DirectoryName(key))).IgnoreError();
    rmdir(root.c_str());  // if it was the last one
  }
}

void RemoveSecretsOfOthers(const Paths& paths, const std::set<AttemptKey>& running) {
  std::set<std::string> kept;
  for (const AttemptKey& key : running) kept.insert(DirectoryName(key));
  for (const std::string& root : OwnRoots(paths)) {
    const auto names = common::ListDirectory(root);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      if (!kept.contains(name)) common::RemoveTree(StrCat(root, "/", name)).IgnoreError();
    }
    rmdir(root.c_str());
  }
}

std::vector<std::string> SecretValues(const Paths& paths, const AttemptKey& key) {
  std::vector<std::string> values;
  const std::optional<std::string> directory = FindSecrets(paths, key);
  if (!directory.has_value()) return values;
  const auto names = common::ListDirectory(*directory);
  if (!names.ok()) return values;
  for (const std::string& name : *names) {
    auto value = common::ReadFile(StrCat(*directory, "/", name), kValueBytesMax);
    if (value.ok()) values.push_back(*std::move(value));
  }
  // The longest first: one value may be part of another.
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return values;
}

std::string HideValues(std::string text, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    if (value.size() < kHiddenBytesLeast) continue;
    for (size_t at = 0; (at = text.find(value, at)) != std::string::npos;
         at += kHiddenText.size()) {
      text.replace(at, value.size(), kHiddenText);
    }
  }
  return text;
}

}  // namespace muster::worker
