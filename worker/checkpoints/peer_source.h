// Fetches an attempt's checkpoint files from another node of the attempt (peer_server.h). One thread.
#pragma once

#include <atomic>
#include <chrono>
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
  // limit: checkpoints: without a byte of a file, a node does not wait any longer for another node of its attempt
  static constexpr std::chrono::minutes kNoByteFor{10};

  // `peer`: without an address there is none. `stop` outlives this.
  PeerSource(v1::FilePeer peer, const std::atomic<bool>& stop);
  ~PeerSource();

  // Whether it may have the file. Once it failed, never.
  bool MayHave(const Blob& blob) const;
  // Writes the file to `fd` and verifies it. `progress`: so many bytes are there. On an error the file at `fd` is
  // of no use. CANCELLED: `stop` was set. NOT_FOUND: the peer will not have it.
  absl::Status Fetch(const Blob& blob, int fd, const std::function<void(uint64_t)>& progress);

  // What could not be written, if the last Fetch failed for that.
  const absl::Status& written() const { return written_; }

 private:
  absl::Status Connect();
  absl::Status Receive(const Blob& blob, int fd, const std::function<void(uint64_t)>& progress);

  const v1::FilePeer peer_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<PeerLink> link_;
  bool is_usable_;
  absl::Status written_;
};

}  // namespace muster::worker
