// An owner's upload as a file of its own in uploads/, hashed while it is written, then synced and
// renamed into blobs/: over a file of the same hash, if there is one, so that nothing tells whether
// there was.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/files.h"
#include "common/sha256.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/disk_gate.h"

namespace muster::coordinator {

class LocalUpload final : public BlobStore::Upload {
 public:
  // `gate`: may be null. `put`: renames the file at `path`, which is durable, into its place.
  LocalUpload(BlobStore::OpenedUpload upload, std::string path, common::UniqueFd fd,
              const DiskGate* gate, std::function<absl::Status()> put)
      : upload_(std::move(upload)),
        path_(std::move(path)),
        fd_(std::move(fd)),
        gate_(gate),
        put_(std::move(put)) {}

  absl::StatusOr<bool> CatchUp() override;
  absl::Status Append(std::string_view data) override;
  absl::Status Commit() override;

 private:
  static constexpr size_t kPieceBytes = 1 << 20;
  static constexpr size_t kPiecesAtOnce = 16;

  const BlobStore::OpenedUpload upload_;
  const std::string path_;
  const common::UniqueFd fd_;
  const DiskGate* const gate_;
  const std::function<absl::Status()> put_;
  common::Sha256 hash_;
  uint64_t hashed_ = 0;  // bytes; once caught up, also how many there are
};

}  // namespace muster::coordinator
