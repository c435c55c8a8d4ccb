// Blobs in memory. None of them is ever old.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/stores/blob_promises.h"
#include "coordinator/stores/blob_store.h"

namespace muster::coordinator {

// Outlives the stores that are opened on it.
struct MemoryBlobs {
  std::mutex mutex;  // guards what follows
  std::map<std::string, std::string> blobs;
  std::map<std::pair<std::string, std::string>, std::string> owned;  // by owner and hash
  std::set<std::pair<std::string, std::string>> written;             // by an upload that is open
  std::vector<std::pair<std::string, std::string>> opened;           // the newest last
  std::set<std::pair<std::string, std::string>> proven;              // by owner and hash
};

class MemoryBlobStore final : public BlobStore {
 public:
  explicit MemoryBlobStore(std::shared_ptr<MemoryBlobs> blobs) : blobs_(std::move(blobs)) {}

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
  std::vector<std::string> OldBlobs() override { return {}; }

 private:
  void RemoveSurplus(const std::string& owner);

  const std::shared_ptr<MemoryBlobs> blobs_;
  BlobPromises promises_;
};

}  // namespace muster::coordinator
