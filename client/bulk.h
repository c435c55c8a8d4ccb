// Output of commands that act on several things: a line each, and the worst exit code. Main thread.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace muster::v1 {
class BulkResponse;
}

namespace muster::client {

class Session;

// Prints "calm-otter-3 is being cancelled" to stdout for each success, and an error for each
// failure.
absl::StatusOr<int> ReportBulk(Session& session, const v1::BulkResponse& response,
                               std::string_view done);

}  // namespace muster::client
