// http and https URLs, as far as a request needs them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::common {

inline constexpr size_t kUrlBytesMax = 2048;

struct HttpUrl {
  bool is_https = false;
  std::string host;  // a name or an address, without brackets
  uint16_t port = 0;
  std::string target;  // path and query, at least "/"

  // Without the path, which may contain a secret; for the Host header and for people: "hooks.example:8443".
  std::string Authority() const;
};

// INVALID_ARGUMENT without a code, with the reason, for anything else: another scheme, a user or
// password, a fragment, blanks, control characters.
absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text);

}  // namespace muster::common
