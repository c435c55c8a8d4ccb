#include "coordinator/local/blob_upload.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {

using common::StrCat;

absl::StatusOr<bool> LocalUpload::CatchUp() {
  for (size_t piece = 0; piece < kPiecesAtOnce && hashed_ < upload_.offset; ++piece) {
    const size_t most = std::min<uint64_t>(kPieceBytes, upload_.offset - hashed_);
    ASSIGN_OR_RETURN(const std::string bytes, common::ReadAt(fd_.get(), hashed_, most, path_));
    if (bytes.empty()) return absl::DataLossError(StrCat(path_, " became shorter"));
    hash_.Update(bytes);
    hashed_ += bytes.size();
  }
  return hashed_ == upload_.offset;
}

absl::Status LocalUpload::Append(std::string_view data) {
  if (data.size() > upload_.size - hashed_) {
    return absl::OutOfRangeError(StrCat("more than the ", upload_.size, " bytes of ",
                                        upload_.sha256, "; fix: restart the upload"));
  }
  if (gate_ != nullptr) RETURN_IF_ERROR(gate_->Check());
  hash_.Update(data);
  while (!data.empty()) {
    const ssize_t count = pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(hashed_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(StrCat("cannot write ", path_));
    data.remove_prefix(static_cast<size_t>(count));
    hashed_ += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status LocalUpload::Commit() {
  if (hashed_ != upload_.size) {
    return absl::FailedPreconditionError(
        StrCat("only ", hashed_, " of ", upload_.size, " bytes arrived"));
  }
  if (fsync(fd_.get()) != 0) return common::ErrnoStatus(StrCat("cannot sync ", path_));
  const std::string found = hash_.FinishHex();
  if (found == upload_.sha256) return put_();
  unlink(path_.c_str());
  return absl::DataLossError(StrCat("the uploaded bytes have SHA-256 ", found, ", not ",
                                    upload_.sha256, "; fix: upload again from the start"));
}

}  // namespace muster::coordinator
