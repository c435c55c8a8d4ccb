// Where the last lines of several streams together begin. Reads backwards by time, so it costs only
// the lines wanted, and one look at the end of each stream.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

// For each of the streams the offset at which its part of the last `lines` lines begins, at or
// after the given one; for a stream without any of these lines, its end.
absl::StatusOr<std::map<LogKey, uint64_t>> OffsetsOfLastLines(
    const LogReader& logs, const std::map<LogKey, uint64_t>& streams, uint64_t lines);

}  // namespace muster::coordinator
