// Errors as people see them: every error of jobctl, local or from the coordinator, is an
// absl::Status, most of them with a value (common/problem.h). This file prints them and picks exit
// codes. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/text/text.h"

namespace muster::v1 {
class ErrorDetail;
}

namespace muster::client {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitAuth = 4;
inline constexpr int kExitUnreachable = 5;
inline constexpr int kExitRefused = 6;
inline constexpr int kExitStartsLater = 10;
inline constexpr int kExitNeverFits = 11;
inline constexpr int kExitJobFailed = 100;
inline constexpr int kExitWaitTimedOut = 101;
inline constexpr int kExitCancelled = 103;
inline constexpr int kExitHeld = 104;
inline constexpr int kExitDetached = 130;

// MakeProblem for a bad command line or file, the most frequent case: INVALID_ARGUMENT.
absl::Status Usage(std::string_view code, std::string_view what, std::string_view fix);

// What happened and why, in one sentence without code and fix: for a note.
std::string Sentence(const absl::Status& error);
// The same for an error that an answer contains beside its result.
std::string Sentence(const v1::ErrorDetail& error);

// NOT_FOUND 3, not allowed 4, unreachable 5; otherwise by code: 10xx 2, 11xx, 14xx and 1205 6;
// otherwise 1.
int ExitCodeFor(const absl::Status& error);

// "error: … [JC1201]\nfix:   …\n". `what` may span several lines.
std::string FormatError(const absl::Status& error, bool color);

}  // namespace muster::client
