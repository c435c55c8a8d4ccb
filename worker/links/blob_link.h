// Checkpoint bytes to and from the coordinator's blob store, resuming where a broken transfer
// stopped; where the cluster has an object store that this node reaches, to and from that (object_link.h). Blocks: used by transfer threads only; Stop from any thread.
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
#include "worker/links/object_link.h"
#include "worker/links/route.h"

namespace muster::worker {

class BlobLink {
 public:
  BlobLink();
  ~BlobLink();

  // Calls block until the first route is known. Running calls finish on their old route if it leads to the same
  // address; those to another coordinator are cut off, because that one no longer leads, and resume at this one.
  void SetRoute(const Route& route);
  // Retries indefinitely if the error allows it, until `cancelled` returns true or Stop is called
  // (CANCELLED). `progress` is called whenever bytes were accepted.
  absl::Status Upload(int fd, const Blob& blob, const AttemptKey& key,
                      const std::function<void()>& progress);
  // Writes the blob to `fd`, which can be read as well, from its current offset 0 and checks its SHA-256
  // (DATA_LOSS if it differs). `key`: the attempt that needs it. `progress`, if set, gets the number of bytes
  // written so far.
  absl::Status Download(const Blob& blob, const AttemptKey& key, int fd,
                        const std::function<bool()>& cancelled,
                        const std::function<void(uint64_t)>& progress = {});
  // The files of the checkpoint that an attempt resumes from, and the node to fetch them from. DATA_LOSS: the coordinator
  // no longer has them, or their number does not match.
  absl::StatusOr<v1::CheckpointFiles> ListResumeFiles(const v1::ListResumeFilesRequest& request,
                                                      size_t count,
                                                      const std::function<bool()>& cancelled);
  // Every call, current and future, returns CANCELLED soon.
  void Stop();

 private:
  struct Parts;  // keeps gRPC out of this header
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::worker
