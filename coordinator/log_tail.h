// Where the last lines of several streams together begin. Reads backwards by time, so it costs what
// is wanted, and one look at the end of each stream.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

// For each of the streams the offset at which its part of the last `lines` lines begins, at or
// behind the one given; the end of a stream that has no part in them.
absl::StatusOr<std::map<LogKey, uint64_t>> OffsetsOfLastLines(
    const LogReader& logs, const std::map<LogKey, uint64_t>& streams, uint64_t lines);

}  // namespace muster::coordinator
