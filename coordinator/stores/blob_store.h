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
  // Likewise for a job that may refer to the blob: what its own workers sent past the coordinator comes first, which no
  // other job is ever given, as no one hashed it. 0: no job.
  virtual absl::StatusOr<std::string> ReadFor(uint64_t job, const std::string& sha256,
                                              uint64_t offset, size_t max) const {
    static_cast<void>(job);
    return Read(sha256, offset, max);
  }
  virtual absl::StatusOr<uint64_t> SizeFor(uint64_t job, const std::string& sha256) const {
    static_cast<void>(job);
    return Size(sha256);
  }
  // The job's own workers have sent it.
  virtual absl::StatusOr<bool> IsSentBy(uint64_t job, const std::string& sha256) const {
    static_cast<void>(job), static_cast<void>(sha256);
    return false;
  }
  // The job is no more: what its workers sent is not needed.
  virtual absl::Status ForgetJob(uint64_t job) {
    static_cast<void>(job);
    return absl::OkStatus();
  }
  // The blobs that were put longer ago. A change of the clock makes none of them old.
  virtual absl::StatusOr<std::vector<std::string>> List(std::chrono::hours age) const = 0;
  // True: it is gone.
  virtual bool Delete(const std::string& sha256) = 0;
};

// INVALID_ARGUMENT, as with Keep (blobs.h).
absl::Status CheckBlobName(const std::string& sha256);
absl::Status CheckBlob(const std::string& sha256, uint64_t size);

}  // namespace muster::coordinator
