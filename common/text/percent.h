// Percent-encoding, as in URLs (RFC 3986). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::common {

// All bytes but letters, digits and "-._~" as %XX. `keeps_slash`: and but "/", as in a path.
std::string PercentEncode(std::string_view text, bool keeps_slash = false);
// Nothing: a % without two hex digits.
std::optional<std::string> PercentDecode(std::string_view text);

}  // namespace muster::common
