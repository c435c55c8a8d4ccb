#include "identity/hex.h"

#include "absl/strings/escaping.h"
#include "common/text.h"

namespace muster::identity {

std::string ToHex(std::string_view bytes) {
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

std::optional<std::string> FromHex(std::string_view digits) {
  if (digits.size() % 2 != 0 ||
      digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
    return std::nullopt;
  }
  return absl::HexStringToBytes(absl::string_view(digits.data(), digits.size()));
}

}  // namespace muster::identity
