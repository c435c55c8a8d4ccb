// One HTTP/1.1 request over TCP, for the tracking server of an export: no TLS, no redirects, one
// connection for each request. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http_response.h"

namespace muster::client {

struct HttpUrl {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string path;  // begins with a slash or is empty; does not end with one
};
// "http://HOST[:PORT][/PATH]". INVALID_ARGUMENT, without a code, for anything else.
absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view url);

struct HttpRequest {
  std::string_view method;  // "GET", "POST"
  std::string path;         // below the URL's, with its query
  std::string body;         // JSON
};
using common::HttpResponse;

// Errors, without a code: UNAVAILABLE if nothing was sent because there is no connection, ABORTED if
// the answer did not come within `timeout_ms` or is not HTTP.
absl::StatusOr<HttpResponse> SendHttp(const HttpUrl& url, const HttpRequest& request,
                                      int64_t timeout_ms);

}  // namespace muster::client
