#include "coordinator/store_parts/upload_area.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::string_view kPartSuffix = ".part";
constexpr size_t kSha256Digits = 64;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kPieceBytes = 1 << 20;  // read back at a time
constexpr size_t kPiecesAtOnce = 16;
constexpr uint64_t kWritebackBytes = 8 << 20;

absl::Status DoesNotFollow(const UploadArea::OpenedUpload& upload, uint64_t have) {
  return absl::OutOfRangeError(StrCat("offset ", upload.offset, " of ", upload.sha256,
                                      " does not follow the ", have, " of ", upload.size,
                                      " bytes received so far; fix: restart the upload"));
}

}  // namespace

class UploadArea::Writer final : public Upload {
 public:
  Writer(UploadArea& area, OpenedUpload upload, common::UniqueFd fd, std::unique_ptr<Hashed> hashed)
      : area_(area),
        upload_(std::move(upload)),
        name_{upload_.owner, upload_.sha256},
        path_(area.PathOf(name_)),
        fd_(std::move(fd)),
        hashed_(std::move(hashed)) {}
  ~Writer() override {
    fd_.Reset();
    area_.Release(name_, std::move(hashed_));
  }

  absl::StatusOr<bool> CatchUp() override {
    if (hashed_ == nullptr) return absl::FailedPreconditionError("the upload has ended");
    for (size_t piece = 0; piece < kPiecesAtOnce && hashed_->bytes < upload_.offset; ++piece) {
      const size_t most = std::min<uint64_t>(kPieceBytes, upload_.offset - hashed_->bytes);
      ASSIGN_OR_RETURN(const std::string bytes,
                       common::ReadAt(fd_.get(), hashed_->bytes, most, path_));
      if (bytes.empty()) return absl::DataLossError(StrCat(path_, " became shorter"));
      hashed_->hash.Update(bytes);
      hashed_->bytes += bytes.size();
    }
    return hashed_->bytes >= upload_.offset;
  }

  absl::Status Append(std::string_view data) override {
    if (hashed_ == nullptr || hashed_->bytes < upload_.offset)
      return absl::FailedPreconditionError("not caught up with what had arrived before");
    if (data.size() > upload_.size - hashed_->bytes) {
      return absl::OutOfRangeError(StrCat("more than the ", upload_.size, " bytes of ",
                                          upload_.sha256, "; fix: restart the upload"));
    }
    if (area_.gate_ != nullptr) RETURN_IF_ERROR(area_.gate_->Check());
    while (!data.empty()) {
      const ssize_t count =
          pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(hashed_->bytes));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return common::ErrnoStatus(StrCat("cannot write ", path_));
      // Exactly what the file has: the next writer continues from here.
      hashed_->hash.Update(data.substr(0, static_cast<size_t>(count)));
      hashed_->bytes += static_cast<uint64_t>(count);
      BeginWriteback();
      data.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (fsync(fd_.get()) == 0) return absl::OkStatus();
    const absl::Status failed = common::ErrnoStatus(StrCat("cannot sync ", path_));
    // The kernel may have dropped what it could not write, and another fsync would not report it.
    ThrowAway();
    return failed;
  }

  absl::Status Commit() override {
    if (hashed_ == nullptr || hashed_->bytes != upload_.size) {
      return absl::FailedPreconditionError(StrCat("only ", hashed_ == nullptr ? 0 : hashed_->bytes,
                                                  " of ", upload_.size, " bytes arrived"));
    }
    RETURN_IF_ERROR(Sync());
    fd_.Reset();
    const std::string found = std::exchange(hashed_, nullptr)->hash.FinishHex();
    if (found == upload_.sha256) return area_.take_(path_, upload_.sha256);
    ThrowAway();
    return absl::DataLossError(StrCat("the uploaded bytes have SHA-256 ", found, ", not ",
                                      upload_.sha256, "; fix: upload again from the start"));
  }

 private:
  // The disk works while more arrives; otherwise it would start when all is there.
  void BeginWriteback() {
    if (hashed_->bytes - written_back_ < kWritebackBytes) return;
    sync_file_range(fd_.get(), static_cast<off64_t>(written_back_),
                    static_cast<off64_t>(hashed_->bytes - written_back_), SYNC_FILE_RANGE_WRITE);
    written_back_ = hashed_->bytes;
  }

  void ThrowAway() {
    unlink(path_.c_str());
    hashed_.reset();
  }

  UploadArea& area_;
  const OpenedUpload upload_;
  const Name name_;
  const std::string path_;
  common::UniqueFd fd_;
  std::unique_ptr<Hashed> hashed_;  // once caught up, of everything that arrived; null: committed
  uint64_t written_back_ = 0;       // the kernel was told to write the bytes before
};

absl::Status UploadArea::Prepare() {
  RETURN_IF_ERROR(common::MakeDirectories(paths_.UploadRoot()));
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   common::ListDirectory(paths_.UploadRoot()));
  for (const std::string& name : names) {
    const std::string sha256 = name.substr(0, kSha256Digits);
    if (common::IsSha256Hex(sha256) && name == StrCat(sha256, kPartSuffix))
      unlink(StrCat(paths_.UploadRoot(), "/", name).c_str());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<UploadArea::Upload>> UploadArea::Open(
    const UploadArea::OpenedUpload& upload) {
  RETURN_IF_ERROR(CheckBlob(upload.sha256, upload.size));
  if (!common::IsPathName(upload.owner)) {
    return absl::InvalidArgumentError(
        StrCat("\"", common::Printable(upload.owner), "\" cannot own an upload"));
  }
  const Name name{upload.owner, upload.sha256};
  if (!Claim(name)) {
    return absl::AbortedError(StrCat(upload.sha256, " of ", upload.owner,
                                     " is being uploaded over another stream; fix: try again"));
  }
  const auto open_claimed = [&]() -> absl::StatusOr<std::unique_ptr<UploadArea::Upload>> {
    const uint64_t have = Arrived(upload.owner, upload.sha256);
    if (upload.offset > have || upload.offset > upload.size) return DoesNotFollow(upload, have);
    const std::string path = PathOf(name);
    ASSIGN_OR_RETURN(common::UniqueFd fd, common::OpenRegular(path, O_RDWR | O_CREAT | O_NOFOLLOW));
    std::unique_ptr<Hashed> before = HashedBefore(name, upload.offset);
    if (ftruncate(fd.get(), static_cast<off_t>(upload.offset)) != 0)
      return common::ErrnoStatus(StrCat("cannot write ", path));
    return std::make_unique<Writer>(*this, upload, std::move(fd), std::move(before));
  };
  absl::StatusOr<std::unique_ptr<UploadArea::Upload>> opened = open_claimed();
  if (!opened.ok()) {
    Release(name, nullptr);
    return opened;
  }
  RemoveSurplus(upload.owner);
  return opened;
}

bool UploadArea::Claim(const Name& name) {
  std::lock_guard lock(mutex_);
  return written_.insert(name).second;
}

void UploadArea::Release(const Name& name, std::unique_ptr<Hashed> hashed) {
  std::lock_guard lock(mutex_);
  written_.erase(name);
  if (hashed == nullptr || hashed->bytes == 0) return;
  // If it is evicted, the file is read again.
  hashed_.Put(name, std::move(hashed));
}

std::unique_ptr<UploadArea::Hashed> UploadArea::HashedBefore(const Name& name, uint64_t offset) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Hashed>* found = hashed_.Find(name);
  if (found == nullptr) return std::make_unique<Hashed>();
  std::unique_ptr<Hashed> hashed = std::move(*found);
  hashed_.Erase(name);
  // Otherwise the upload overwrites a part of what was hashed.
  return hashed->bytes <= offset ? std::move(hashed) : std::make_unique<Hashed>();
}

uint64_t UploadArea::Arrived(const std::string& owner, const std::string& sha256) const {
  struct stat info {};
  if (stat(PathOf({owner, sha256}).c_str(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.st_size);
}

std::vector<UploadArea::Partial> UploadArea::Partials(const std::string& owner) const {
  struct Found {
    int64_t written_ns;
    Partial partial;
  };
  std::vector<Found> found;
  const std::string end = StrCat("@", owner, kPartSuffix);
  const auto names = common::ListDirectory(paths_.UploadRoot());
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string sha256 = name.substr(0, kSha256Digits);
    struct stat info {};
    if (name != sha256 + end || !common::IsSha256Hex(sha256) ||
        stat(PathOf({owner, sha256}).c_str(), &info) != 0) {
      continue;
    }
    found.push_back({info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec,
                     {sha256, static_cast<uint64_t>(info.st_size)}});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.written_ns < b.written_ns; });
  std::vector<UploadArea::Partial> partials;
  for (Found& each : found) partials.push_back(std::move(each.partial));
  return partials;
}

void UploadArea::Remove(const std::string& owner, const std::string& sha256) {
  if (!common::IsSha256Hex(sha256) || !common::IsPathName(owner)) return;
  const Name name{owner, sha256};
  std::lock_guard lock(mutex_);
  if (written_.contains(name)) return;
  hashed_.Erase(name);
  unlink(PathOf(name).c_str());
}

void UploadArea::RemoveSurplus(const std::string& owner) {
  const std::vector<UploadArea::Partial> partials = Partials(owner);
  for (size_t i = 0; i + kPartialsMax < partials.size(); ++i) Remove(owner, partials[i].sha256);
}

void UploadArea::RemoveUnused(const FileAge& age) {
  const auto names = common::ListDirectory(paths_.UploadRoot());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = StrCat(paths_.UploadRoot(), "/", name);
    if (age.IsOlderThan(path, kUnusedKept)) unlink(path.c_str());
  }
}

}  // namespace muster::coordinator
