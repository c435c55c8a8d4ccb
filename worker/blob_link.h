// Checkpoint bytes to and from the coordinator's blob store, resuming where a broken transfer
// stopped. Blocks: used by transfer threads only; Stop from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"

namespace muster::worker {

struct Blob {
  std::string sha256;
  uint64_t size = 0;
};

class BlobLink {
 public:
  BlobLink();
  ~BlobLink();

  // Calls wait until the first endpoint is known.
  void SetEndpoint(const std::string& endpoint);
  // Retries for ever what may be retried, until `cancelled` says so or Stop (CANCELLED). `progress`
  // is called whenever bytes were accepted.
  absl::Status Upload(const std::string& path, const Blob& blob, const AttemptKey& key,
                      const std::function<void()>& progress);
  // Writes the blob to `fd` from its present offset 0 on and checks its SHA-256 (DATA_LOSS when it
  // differs).
  absl::Status Download(const Blob& blob, int fd, const std::function<bool()>& cancelled);
  // The files of the checkpoint that an attempt resumes from. DATA_LOSS: the coordinator has them no
  // more, or they are not as many as it said.
  absl::StatusOr<std::vector<v1::CheckpointFile>> ListResumeFiles(
      const v1::ListResumeFilesRequest& request, size_t count,
      const std::function<bool()>& cancelled);
  // Every call returns CANCELLED soon, now and later.
  void Stop();

 private:
  struct Parts;  // keeps gRPC out of this header
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::worker
