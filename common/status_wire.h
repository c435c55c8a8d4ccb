// A status on its way between processes: code, message, and the bytes that carry its value (gRPC
// calls them error details). Bounded, because gRPC drops a call whose trailers are large: of a long
// text the middle of the line is cut, never the code or the advice. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace muster::common {

// Of the texts of one status, counted as gRPC writes them: a byte that is not printable ASCII takes
// three. The message goes out twice and the details' bytes may grow by a third: with gRPC's own
// headers this stays below the 8 KiB that a peer takes by default.
inline constexpr size_t kStatusTextMax = 1'700;

struct WireStatus {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  std::string details;
};

WireStatus ToWire(const absl::Status& status);
// Details that cannot be read count as none; a missing message is taken from the details.
absl::Status FromWire(const WireStatus& wire);

}  // namespace muster::common
