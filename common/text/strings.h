// StrCat and StrAppend over absl's that also take std::string_view: Debian builds abseil with its
// own string_view, so absl::StrCat rejects the standard one.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster::common {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view FromAbsl(absl::string_view text) { return {text.data(), text.size()}; }

namespace internal {
template <typename T>
decltype(auto) Piece(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return ToAbsl(value);
  } else {
    return (value);
  }
}
}  // namespace internal

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  return absl::StrCat(internal::Piece(parts)...);
}

template <typename... Parts>
void StrAppend(std::string* target, const Parts&... parts) {
  absl::StrAppend(target, internal::Piece(parts)...);
}

}  // namespace muster::common
