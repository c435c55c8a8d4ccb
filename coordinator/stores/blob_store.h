// Blobs by their SHA-256: checkpoint files and objects of jobs' code. A blob is put whole and never
// changes. blobs.h, not the store, handles how its bytes arrive, who owns them and what keeps it from
// being removed.
//
// Any thread; may be slow or remote: called on the work pools' threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

class BlobStore {
 public:
  static constexpr uint64_t kBlobBytesMax = 1ull << 43;  // of one checkpoint file

  virtual ~BlobStore() = default;

  // Moves the file, which has the bytes and is durable, into the store. It replaces a blob of that name,
  // so that nothing tells whether there was one. Durable when it returns.
  virtual absl::Status Put(const std::string& path, const std::string& sha256) = 0;
  // At most `max` bytes; shorter only at the end. NOT_FOUND.
  virtual absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                           size_t max) const = 0;
  // NOT_FOUND.
  virtual absl::StatusOr<uint64_t> Size(const std::string& sha256) const = 0;
  // The blobs that were put longer ago. A change of the clock makes none of them old.
  virtual absl::StatusOr<std::vector<std::string>> List(std::chrono::hours age) const = 0;
  // True: it is gone.
  virtual bool Delete(const std::string& sha256) = 0;
};

// INVALID_ARGUMENT, as with Keep (blobs.h).
absl::Status CheckBlobName(const std::string& sha256);
absl::Status CheckBlob(const std::string& sha256, uint64_t size);

}  // namespace muster::coordinator
