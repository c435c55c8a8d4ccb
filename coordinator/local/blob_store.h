// Blobs as files in blobs/. Uploads arrive in an UploadArea, and are renamed into their place: over
// a file of the same hash, if there is one, so that nothing tells whether there was.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/local/file_age.h"
#include "coordinator/local/upload_area.h"
#include "coordinator/local/upload_proofs.h"
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

  absl::StatusOr<bool> Keep(const std::string& sha256, uint64_t size) override;
  absl::StatusOr<std::unique_ptr<Upload>> OpenUpload(const OpenedUpload& upload) override;
  uint64_t Arrived(const std::string& owner, const std::string& sha256) override;
  std::vector<Partial> Partials(const std::string& owner) override;
  void RemovePartial(const std::string& owner, const std::string& sha256) override;
  absl::Status Prove(const std::string& owner, const std::string& sha256) override;
  absl::StatusOr<bool> HasProven(const std::string& owner, const std::string& sha256) override;
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                   size_t max) const override;
  absl::StatusOr<uint64_t> Size(const std::string& sha256) const override;
  absl::Status Verify(const std::string& sha256) const override;
  bool RemoveUnlessPromised(const std::string& sha256) override;
  std::vector<std::string> OldBlobs() override;

 private:
  LocalBlobStore(const Paths& paths, const DiskGate* gate);
  // Of a durable file with the right bytes.
  absl::Status Put(const std::string& path, const std::string& sha256);

  const FileAge age_;
  const Paths paths_;
  BlobPromises promises_;
  UploadArea uploads_;
  const UploadProofs proofs_;
};

}  // namespace muster::coordinator
