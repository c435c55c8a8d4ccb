// Output of commands that act on several things: one line for each, and the worst exit code. Main thread.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "client/command_line/command.h"

namespace muster::v1 {
class BulkResponse;
}

namespace muster::client {

class Arguments;
class Session;

inline constexpr Flag kBulkOutputFlag = {"output", 'o', "FORMAT",
                                         "what became of each, as json, jsonl, yaml or csv",
                                         "json|jsonl|yaml|csv"};

// Prints "calm-otter-3 is being cancelled" to stdout for each success, and an error for each
// failure; with -o a list of all.
absl::StatusOr<int> ReportBulk(Session& session, const Arguments& arguments,
                               const v1::BulkResponse& response, std::string_view done);

}  // namespace muster::client
