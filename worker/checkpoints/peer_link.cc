#include "worker/checkpoints/peer_link.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <climits>

#include "common/base/status.h"
#include "common/http/deadline.h"
#include "common/secret_tls.h"

namespace muster::worker {
namespace {

constexpr char kKind[] = "muster-files-1";

}  // namespace

absl::StatusOr<std::unique_ptr<PeerLink>> PeerLink::Open(common::UniqueFd fd, bool is_server,
                                                         const std::string& secret,
                                                         const std::atomic<bool>& stop) {
  std::unique_ptr<PeerLink> link(new PeerLink(std::move(fd), stop));
  link->context_ = common::NewSecretContext(is_server, kKind);
  link->tls_ = link->context_ == nullptr ? nullptr : SSL_new(link->context_);
  if (link->tls_ == nullptr || SSL_set_fd(link->tls_, link->fd_.get()) != 1)
    return absl::ResourceExhaustedError("no memory for TLS");
  common::SetSecret(link->tls_, &secret);
  RETURN_IF_ERROR(link->Repeat(
      kOpenWithin, [&] { return is_server ? SSL_accept(link->tls_) : SSL_connect(link->tls_); }));
  if (!common::PeerHasSecret(link->tls_))
    return absl::UnauthenticatedError("what answers there does not have the attempt's secret");
  return link;
}

PeerLink::~PeerLink() {
  SSL_free(tls_);
  SSL_CTX_free(context_);
}

absl::Status PeerLink::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const int most = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
    int count = 0;
    RETURN_IF_ERROR(
        Repeat(kSilentFor, [&] { return count = SSL_write(tls_, bytes.data(), most); }));
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status PeerLink::Receive(char* to, size_t bytes, std::chrono::seconds within) {
  while (bytes > 0) {
    const int most = static_cast<int>(std::min<size_t>(bytes, INT_MAX));
    int count = 0;
    RETURN_IF_ERROR(Repeat(within, [&] { return count = SSL_read(tls_, to, most); }));
    to += count;
    bytes -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

template <typename Call>
absl::Status PeerLink::Repeat(std::chrono::seconds within, Call call) {
  const common::Deadline deadline(within, &stop_);
  while (true) {
    RETURN_IF_ERROR(deadline.Check());
    ERR_clear_error();
    const int result = call();
    if (result > 0) return absl::OkStatus();
    const int why = SSL_get_error(tls_, result);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
      return absl::AbortedError("the connection to another node broke");
    RETURN_IF_ERROR(deadline.AwaitSocket(fd_.get(), why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT));
  }
}

}  // namespace muster::worker
