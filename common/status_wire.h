// A status in transit between processes: code, message, and the bytes that carry its value (gRPC
// calls them error details). Bounded, because gRPC drops a call whose trailers are too large: a
// long text is cut in the middle, never the code or the fix. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace muster::common {

// Limit on the texts of one status, counted as gRPC encodes them: a byte that is not printable
// ASCII takes three. The message is sent twice and the details may grow by a third: with gRPC's own
// headers this stays below the 8 KiB that a peer accepts by default.
inline constexpr size_t kStatusTextMax = 1'700;

struct WireStatus {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  std::string details;
};

WireStatus ToWire(const absl::Status& status);
// Unreadable details count as none; a missing message is taken from the details.
absl::Status FromWire(const WireStatus& wire);

}  // namespace muster::common
