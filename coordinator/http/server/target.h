// The target of a request, split and decoded. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator::http {

inline constexpr size_t kQueryParametersMax = 256;

using Query = std::vector<std::pair<std::string, std::string>>;

struct Target {
  std::string path;  // "/api/v1/GetJob"; decoded
  Query query;       // decoded, in order; a name may be repeated

  // The value of the first parameter of that name; empty if there is none.
  std::string_view Get(std::string_view name) const;
};

// INVALID_ARGUMENT for anything but a path from the root with an optional query: whole URLs, a
// fragment, a broken %-escape, control characters.
absl::StatusOr<Target> ParseTarget(std::string_view text);

}  // namespace muster::coordinator::http
