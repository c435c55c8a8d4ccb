#include "client/command_line/errors.h"

#include "common/error_codes.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/error.pb.h"

namespace muster::client {

absl::Status Usage(std::string_view code, std::string_view what, std::string_view fix) {
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = std::string(code), .what = std::string(what), .fix = std::string(fix)});
}

std::string Sentence(const absl::Status& error) {
  const common::Problem problem = common::ProblemOf(error);
  return problem.why.empty() ? problem.what : common::StrCat(problem.what, ": ", problem.why);
}

std::string Sentence(const v1::ErrorDetail& error) {
  return Sentence(common::StatusOf(absl::StatusCode::kUnavailable, error.what(), error));
}

int ExitCodeFor(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitAuth;
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    default:
      break;
  }
  const std::string code = common::CodeOf(error);
  if (code.starts_with("JC10")) return kExitUsage;
  // JC1205: the key was used for a different job.
  if (code.starts_with("JC11") || code.starts_with("JC14") || code == "JC1205") return kExitRefused;
  if (error.code() == absl::StatusCode::kResourceExhausted) return kExitRefused;
  return kExitFailed;
}

std::string FormatError(const absl::Status& error, bool color) {
  const common::Problem problem = common::ProblemOf(error);
  const char* red = color ? "\033[1;31m" : "";
  const char* cyan = color ? "\033[36m" : "";
  const char* reset = color ? "\033[0m" : "";
  std::string what = common::Printable(Sentence(error), true);
  if (!problem.code.empty()) {
    // The code goes at the end of the first line: further lines are a list.
    const std::string tag = common::StrCat(" [", problem.code, "]");
    const size_t first_end = what.find('\n');
    if (first_end == std::string::npos) {
      what += tag;
    } else {
      what.insert(first_end, tag);
    }
  }
  std::string out = common::StrCat(red, "error:", reset, " ", what, "\n");
  // The fix from the code's row if the error itself has none.
  const common::ErrorCode* known =
      problem.code.empty() ? nullptr : common::FindErrorCode(problem.code);
  const std::string_view fix =
      !problem.fix.empty() || known == nullptr ? std::string_view(problem.fix) : known->fix;
  if (!fix.empty()) {
    common::StrAppend(&out, cyan, "fix:", reset, "   ", common::Printable(fix, true), "\n");
  }
  return out;
}

}  // namespace muster::client
