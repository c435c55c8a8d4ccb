// HMAC-SHA-256 (RFC 2104), as 64 lower-case hex digits.
#pragma once

#include <string>
#include <string_view>

namespace muster::common {

std::string HmacSha256Hex(std::string_view secret, std::string_view bytes);

}  // namespace muster::common
