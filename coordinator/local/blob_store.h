// Blobs as files: uploads are written in uploads/, then verified, synced and renamed into blobs/.
// Two uploads of the same bytes write the same file; it is renamed only if its hash matches.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/local/file_age.h"
#include "coordinator/paths.h"
#include "coordinator/stores/blob_promises.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/disk_gate.h"

namespace muster::coordinator {

class LocalBlobStore final : public BlobStore {
 public:
  // `gate`: may be null.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(const Paths& paths,
                                                         const DiskGate* gate = nullptr);

  absl::StatusOr<Place> Begin(const std::string& sha256, uint64_t size) override;
  absl::Status Write(const std::string& sha256, uint64_t size, uint64_t offset,
                     std::string_view data) override;
  absl::StatusOr<bool> Finish(const std::string& sha256, uint64_t size) override;
  uint64_t Received(const std::string& sha256) override;
  absl::StatusOr<std::unique_ptr<Upload>> OpenUpload(const OpenedUpload& upload) override;
  std::vector<Partial> Partials(const std::string& owner) override;
  void RemovePartial(const std::string& owner, const std::string& sha256) override;
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                   size_t max) const override;
  absl::StatusOr<uint64_t> Size(const std::string& sha256) const override;
  absl::Status Verify(const std::string& sha256) const override;
  bool RemoveUnlessPromised(const std::string& sha256) override;
  std::vector<std::string> OldBlobs() override;

 private:
  LocalBlobStore(const Paths& paths, const DiskGate* gate) : paths_(paths), gate_(gate) {}
  // False: not all of it has arrived, or it is in place already.
  absl::StatusOr<bool> PutIntoPlace(const std::string& sha256, uint64_t size);
  absl::Status SyncPlace(const std::string& sha256);
  // Of a durable file with the right bytes.
  absl::Status Put(const std::string& path, const std::string& sha256);

  const FileAge age_;
  const Paths paths_;
  const DiskGate* const gate_;
  BlobPromises promises_;
};

}  // namespace muster::coordinator
