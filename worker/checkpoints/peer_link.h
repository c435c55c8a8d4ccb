// Bytes between two nodes of an attempt, in TLS of the secret that the coordinator has told both. Blocks; one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace muster::worker {

class PeerLink {
 public:
  // limit: checkpoints: silence of a node that sends a file to another node of its attempt; the store has it, too
  static constexpr std::chrono::seconds kSilentFor{20};
  // limit: checkpoints: until a connection between two nodes of an attempt is there; closed
  static constexpr std::chrono::seconds kOpenWithin{5};

  // `fd`: connected, not blocking. `secret` and `stop` outlive it. Any error: nothing was exchanged.
  static absl::StatusOr<std::unique_ptr<PeerLink>> Open(common::UniqueFd fd, bool is_server,
                                                        const std::string& secret,
                                                        const std::atomic<bool>& stop);
  ~PeerLink();
  // CANCELLED: `stop` was set, at most 0.1 s ago. Other errors: the link is of no use any more.
  absl::Status Send(std::string_view bytes);
  // Exactly so many.
  absl::Status Receive(char* to, size_t bytes, std::chrono::seconds within = kSilentFor);

 private:
  PeerLink(common::UniqueFd fd, const std::atomic<bool>& stop) : fd_(std::move(fd)), stop_(stop) {}
  template <typename Call>
  absl::Status Repeat(std::chrono::seconds within, Call call);

  const common::UniqueFd fd_;
  const std::atomic<bool>& stop_;
  SSL_CTX* context_ = nullptr;
  SSL* tls_ = nullptr;
};

}  // namespace muster::worker
