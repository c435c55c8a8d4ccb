// Parses an HTTP/1.1 server's answer from the bytes received so far. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::common {

struct HttpResponse {
  int status = 0;
  std::string body;
};

// Nothing while more bytes are needed. `ended`: the server closed the connection. INVALID_ARGUMENT if it
// is not an HTTP response, or is larger than kHttpResponseMax, or its head larger than kHttpHeadMax.
// limit: asking over HTTP: a response's body, where the caller allows no less; an error
inline constexpr size_t kHttpResponseMax = 4 << 20;
// limit: asking over HTTP: a response's head; an error
inline constexpr size_t kHttpHeadMax = 64 << 10;
absl::StatusOr<std::optional<HttpResponse>> ParseHttpResponse(std::string_view bytes, bool ended);

}  // namespace muster::common
