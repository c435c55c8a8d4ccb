// The one HTTP client: one request over HTTP/1.1, plain or in TLS, each on its own connection. Every
// request to a server is made here: enrolment, webhooks, the identity provider, the tracking server of
// an export. No redirect is followed, no proxy is used, and head, body and time have limits. Blocks
// for at most `within`, so never call it on a loop; any thread.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/response.h"
#include "common/text/url.h"

struct x509_st;

namespace muster::common {

// What an https server must prove, instead of being the URL's host as certified by one of the system's
// authorities (SSL_CERT_FILE). TLS 1.3 only.
struct PinnedServer {
  std::string name;  // expected in its certificate, whatever address is dialed
  std::string
      authority_pem;  // must have issued its certificate; empty: any will do, nothing is proven
  // Checks whether such a certificate is the right one; may be empty.
  std::function<absl::Status(x509_st*)> check;
};

struct HttpCall {
  HttpUrl url;
  std::string body;  // empty: GET, otherwise POST
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  // Whether an address of the host may be called, else why not; empty: all may.
  std::function<absl::Status(const sockaddr*)> may_call;
  size_t answer_max = 0;  // bytes of the answer; 0: only its status is read
  std::optional<PinnedServer> pinned;
  // limit: asking over HTTP: the whole, by default; an error that tells whether the server may have acted
  std::chrono::milliseconds within{10'000};  // the whole call, including name resolution
};

// The host is resolved once, and exactly the address that was checked is called. Errors have no code;
// their text is the bare reason. Nothing was sent with
//   NOT_FOUND        the host does not resolve
//   UNAVAILABLE      no address of it answers
//   UNAUTHENTICATED  its certificate is refused
//   the error of may_call, if no address may be called; the error of PinnedServer::check
// and with these the server may have acted on the request:
//   ABORTED          the connection broke, or the answer is late, too large or not HTTP
// CANCELLED: `stop` was set; the call notices it within 0.1 s.
absl::StatusOr<HttpResponse> CallHttp(const HttpCall& call,
                                      const std::atomic<bool>* stop = nullptr);

}  // namespace muster::common
