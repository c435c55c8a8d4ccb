// Blobs as files in blobs/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/store_parts/file_age.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class LocalBlobStore final : public BlobStore {
 public:
  // The directory may not be there yet.
  static std::shared_ptr<BlobStore> At(const Paths& paths);

  absl::Status Put(const std::string& path, const std::string& sha256) override;
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                   size_t max) const override;
  absl::StatusOr<uint64_t> Size(const std::string& sha256) const override;
  absl::StatusOr<std::vector<std::string>> List(std::chrono::hours age) const override;
  bool Delete(const std::string& sha256) override;

 private:
  explicit LocalBlobStore(const Paths& paths) : paths_(paths) {}

  const FileAge age_;
  const Paths paths_;
};

}  // namespace muster::coordinator
