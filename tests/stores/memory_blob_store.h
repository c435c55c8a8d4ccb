// Blobs in memory. None of them is ever old.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/stores/blob_store.h"

namespace muster::coordinator {

// Outlives the stores that are opened on it.
struct MemoryBlobs {
  std::mutex mutex;  // guards what follows
  std::map<std::string, std::string> blobs;
};

class MemoryBlobStore final : public BlobStore {
 public:
  explicit MemoryBlobStore(std::shared_ptr<MemoryBlobs> blobs) : blobs_(std::move(blobs)) {}

  absl::Status Put(const std::string& path, const std::string& sha256) override;
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                   size_t max) const override;
  absl::StatusOr<uint64_t> Size(const std::string& sha256) const override;
  absl::StatusOr<std::vector<std::string>> List(std::chrono::hours) const override {
    return std::vector<std::string>();
  }
  bool Delete(const std::string& sha256) override;

 private:
  const std::shared_ptr<MemoryBlobs> blobs_;
};

}  // namespace muster::coordinator
