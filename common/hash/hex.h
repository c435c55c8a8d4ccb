// Bytes as lower-case hex digits and back. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::common {

std::string ToHex(std::string_view bytes);
// nullopt unless it is an even number of hex digits, of either case.
std::optional<std::string> FromHex(std::string_view digits);

}  // namespace muster::common
