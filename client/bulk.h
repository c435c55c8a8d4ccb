// Answers to verbs on several things: a line each, and the worst of their codes. Main thread.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace muster::v1 {
class BulkResponse;
}

namespace muster::client {

class Session;

// "calm-otter-3 is being cancelled" to stdout for each that worked, an error for each that did not.
absl::StatusOr<int> ReportBulk(Session& session, const v1::BulkResponse& response,
                               std::string_view done);

}  // namespace muster::client
