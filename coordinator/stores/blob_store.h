// Blobs by their SHA-256: checkpoint files and objects of jobs' code. A blob is put whole and never
// changes. How its bytes arrive, whose they are and who keeps it from being removed is not a store's
// business (blobs.h).
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

  // The file, which has the bytes and is durable, is the store's from now on, and gone from where it
  // was. Over the blob of that name, if there is one, so that nothing tells whether there was.
  // Durable when it returns.
  virtual absl::Status Put(const std::string& path, const std::string& sha256) = 0;
  // At most `max` bytes; shorter only at the end. NOT_FOUND.
  virtual absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                           size_t max) const = 0;
  // NOT_FOUND.
  virtual absl::StatusOr<uint64_t> Size(const std::string& sha256) const = 0;
  // Those that were put longer ago. A clock that was set makes none of them old.
  virtual absl::StatusOr<std::vector<std::string>> List(std::chrono::hours age) const = 0;
  // True: it is gone.
  virtual bool Delete(const std::string& sha256) = 0;
};

// INVALID_ARGUMENT, as Keep says (blobs.h).
absl::Status CheckBlobName(const std::string& sha256);
absl::Status CheckBlob(const std::string& sha256, uint64_t size);

}  // namespace muster::coordinator
