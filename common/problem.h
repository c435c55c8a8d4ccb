// An error as a value: a stable code, what happened, why, and what to do about it. Made where it is
// known, carried as the payload of an absl::Status, read where it is shown. The status's message is
// the same in one readable line, for logs; nothing takes that line apart. Pure; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::v1 {
class ErrorDetail;
}

namespace muster::common {

struct Problem {
  std::string code = {};  // "JC1201": a row of error_codes.cc
  std::string what = {};  // names the thing and the value; may have several lines
  std::string why = {};   // the cause, where `what` does not say it already
  std::string fix = {};   // empty: what the code's row says
};

// The one maker. What no person could read (control characters, bytes that are no UTF-8) is
// escaped.
absl::Status MakeProblem(absl::StatusCode status, Problem problem);
// What the status carries. One without a value (gRPC's own, the system's, an older coordinator's):
// the message as `what`, no code.
Problem ProblemOf(const absl::Status& status);
// "JC1201", or empty.
std::string CodeOf(const absl::Status& status);
// "[JC1201] what: why; fix: fix".
std::string Readable(const Problem& problem);

// For messages that report on several things: the status's value. False: it has none.
bool CopyDetail(const absl::Status& status, v1::ErrorDetail* detail);
// The status that such a message reports. `detail` without a code: from an older peer.
absl::Status StatusOf(absl::StatusCode code, const std::string& message,
                      const v1::ErrorDetail& detail);

}  // namespace muster::common
