// An error as a value: a stable code, what happened, why, and how to fix it. Made where it is
// known, carried as a payload of an absl::Status, read where it is shown. The status's message is
// the same as one readable line, for logs; nothing parses that line. Pure; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::v1 {
class ErrorDetail;
}

namespace muster::common {

struct Problem {
  std::string code = {};  // "JC1201": a row of error_codes.cc
  std::string what = {};  // names the thing and the value; may span several lines
  std::string why = {};   // the cause, if `what` does not already give it
  std::string fix = {};   // empty: the code's row gives it
};

// The only way to make one. Control characters and bytes that are not UTF-8 are escaped.
absl::Status MakeProblem(absl::StatusCode status, Problem problem);
// The value that the status carries. For a status without one (from gRPC, the system, an older
// coordinator): the message as `what`, no code.
Problem ProblemOf(const absl::Status& status);
// "JC1201", or empty.
std::string CodeOf(const absl::Status& status);
// "[JC1201] what: why; fix: fix".
std::string Readable(const Problem& problem);

// For messages that report on several things: copies the status's value. False if it has none.
bool CopyDetail(const absl::Status& status, v1::ErrorDetail* detail);
// The status that such a message reports. `detail` without a code: from an older peer.
absl::Status StatusOf(absl::StatusCode code, const std::string& message,
                      const v1::ErrorDetail& detail);

}  // namespace muster::common
