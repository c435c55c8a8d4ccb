// One request over http or https to a server outside of the cluster: a webhook, an identity provider.
// No redirect is followed, no proxy is used; https trusts the system's authorities (SSL_CERT_FILE).
// Blocks, for at most kCallWithin; any thread of a pool.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http_response.h"
#include "common/url.h"

namespace muster::coordinator {

inline constexpr std::chrono::seconds kCallWithin{10};

struct HttpCall {
  common::HttpUrl url;
  std::string body;  // empty: GET, otherwise POST
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  // Whether an address of the host may be called, else why not. Must be set.
  std::function<absl::Status(const sockaddr*)> may_call;
  size_t answer_max = 0;  // bytes of the answer; 0: only its status is read
};

// The host is resolved once, and exactly the address that was checked is called. With https the
// certificate must be valid for the host. UNAVAILABLE: it does not answer, or not in HTTP.
// CANCELLED: `stop` was set. What may_call said if no address of the host may be called.
absl::StatusOr<common::HttpResponse> CallHttp(const HttpCall& call, const std::atomic<bool>& stop);

}  // namespace muster::coordinator
