// Fetches an attempt's checkpoint files from another node of the attempt (peer_server.h). One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "muster/v1/job.pb.h"
#include "worker/links/object_link.h"

namespace muster::worker {

class PeerLink;

class PeerSource {
 public:
  // `peer`: without an address there is none. `stop` outlives this.
  PeerSource(v1::FilePeer peer, const std::atomic<bool>& stop);
  ~PeerSource();

  // Whether it may have the file. Once it failed, never.
  bool MayHave(const Blob& blob) const;
  // Writes the file to `fd` and verifies it. `progress`: so many bytes are there. On an error the file at `fd` is
  // of no use. CANCELLED: `stop` was set.
  absl::Status Fetch(const Blob& blob, int fd, const std::function<void(uint64_t)>& progress);

 private:
  absl::Status Connect();
  absl::Status Receive(const Blob& blob, int fd, const std::function<void(uint64_t)>& progress);

  const v1::FilePeer peer_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<PeerLink> link_;
  bool is_usable_;
};

}  // namespace muster::worker
