// The coordinator's HTTP service: its listening sockets, secrets, site and server, started together.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/http/server/server_tls.h"
#include "coordinator/http/sign_in/enroll.h"

namespace muster::coordinator {
struct Caller;
struct Daemon;
}  // namespace muster::coordinator

namespace muster::coordinator::http {

class HttpService {
 public:
  struct Options {
    std::vector<std::string> listen;  // "ADDR:PORT", "unix:PATH"; at least one
    std::vector<std::string> host_names;
    size_t connections = 256;
    std::function<size_t()> journal_pending_bytes;
    std::shared_ptr<const ServerTls> tls = nullptr;   // of every TCP listener; null: not encrypted
    Enrolment* enrolment = nullptr;                   // null: there is no cluster to join
    std::optional<oidc::Client> oidc = std::nullopt;  // people sign in there; nothing: only tokens
    // HOST:PORT by which browsers reach this one of several coordinators; empty: at what it listens on.
    std::string advertised = {};
    std::function<void()> before_sending = nullptr;  // Handlers::before_sending
  };
  // Listens, but answers nothing yet. Port 0 picks a free one, the same as last time if it is still free.
  static absl::StatusOr<std::unique_ptr<HttpService>> Open(Daemon& daemon, Options options);
  ~HttpService();
  // Call it once the daemon can take calls.
  void Serve();
  // Answers nothing more. Later answers of handlers are dropped.
  void Stop();

  // The first listener's: "https://10.0.0.7:7701", "http://127.0.0.1:7701", "unix:/path".
  const std::string& Address() const;
  // A link that signs a browser in once, as the caller, and leads to `path`. FAILED_PRECONDITION if
  // it listens only on a socket, which no browser can reach.
  absl::StatusOr<std::string> SignInLink(const Caller& caller, std::string_view path);

 private:
  struct Parts;
  explicit HttpService(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Whether only this machine can reach the address: a loopback address, localhost, or a unix socket.
bool IsLocalOnly(std::string_view listen);

}  // namespace muster::coordinator::http
