#include "client/errors.h"

#include "common/error_codes.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {

absl::Status Problem(absl::StatusCode status, std::string_view code, std::string_view what,
                     std::string_view fix) {
  std::string message = common::StrCat("[", code, "] ", what);
  if (!fix.empty()) common::StrAppend(&message, "; fix: ", fix);
  return absl::Status(status, message);
}

absl::Status Usage(std::string_view code, std::string_view what, std::string_view fix) {
  return Problem(absl::StatusCode::kInvalidArgument, code, what, fix);
}

ErrorParts SplitError(const absl::Status& error) {
  ErrorParts parts;
  std::string_view text = common::FromAbsl(error.message());
  if (text.starts_with("[JC")) {
    if (const size_t end = text.find("] "); end != std::string_view::npos && end < 12) {
      parts.code = text.substr(1, end - 1);
      text.remove_prefix(end + 2);
    }
  }
  if (const size_t fix = text.rfind("; fix: "); fix != std::string_view::npos) {
    parts.fix = text.substr(fix + 7);
    text = text.substr(0, fix);
  }
  parts.what = text;
  return parts;
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
  const std::string code = SplitError(error).code;
  if (code.starts_with("JC10")) return kExitUsage;
  // JC1205: the key was used for another job.
  if (code.starts_with("JC11") || code.starts_with("JC14") || code == "JC1205") return kExitRefused;
  if (error.code() == absl::StatusCode::kResourceExhausted) return kExitRefused;
  return kExitFailed;
}

std::string FormatError(const absl::Status& error, bool color) {
  const ErrorParts parts = SplitError(error);
  const char* red = color ? "\033[1;31m" : "";
  const char* cyan = color ? "\033[36m" : "";
  const char* reset = color ? "\033[0m" : "";
  std::string what = common::Printable(parts.what, true);
  if (!parts.code.empty()) {
    // The code stands at the end of the first line: the further lines are a list.
    const std::string tag = common::StrCat(" [", parts.code, "]");
    const size_t first_end = what.find('\n');
    if (first_end == std::string::npos) {
      what += tag;
    } else {
      what.insert(first_end, tag);
    }
  }
  std::string out = common::StrCat(red, "error:", reset, " ", what, "\n");
  // What its code says, when the error itself has no advice.
  const common::ErrorCode* known = parts.code.empty() ? nullptr : common::FindErrorCode(parts.code);
  const std::string_view fix =
      !parts.fix.empty() || known == nullptr ? std::string_view(parts.fix) : known->fix;
  if (!fix.empty()) {
    common::StrAppend(&out, cyan, "fix:", reset, "   ", common::Printable(fix, true), "\n");
  }
  return out;
}

std::string DidYouMean(std::string_view nearest) {
  if (nearest.empty()) return "";
  return common::StrCat("; did you mean \"", nearest, "\"?");
}

}  // namespace muster::client
