#include "common/problem.h"

#include <utility>

#include "absl/strings/cord.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/error.pb.h"

namespace muster::common {
namespace {

constexpr char kTypeUrl[] = "type.googleapis.com/muster.v1.ErrorDetail";

absl::Status WithDetail(absl::StatusCode code, const std::string& message,
                        const v1::ErrorDetail& detail) {
  absl::Status status(code, message);
  status.SetPayload(kTypeUrl, absl::Cord(detail.SerializeAsString()));
  return status;
}

}  // namespace

absl::Status MakeProblem(absl::StatusCode status, Problem problem) {
  for (std::string* text : {&problem.what, &problem.why, &problem.fix}) {
    *text = Printable(*text, true);
  }
  const std::string message = Readable(problem);
  v1::ErrorDetail detail;
  detail.set_code(std::move(problem.code));
  detail.set_what(std::move(problem.what));
  detail.set_why(std::move(problem.why));
  detail.set_fix(std::move(problem.fix));
  return WithDetail(status, message, detail);
}

Problem ProblemOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  if (!CopyDetail(status, &detail)) return {.what = std::string(status.message())};
  return {.code = std::move(*detail.mutable_code()),
          .what = std::move(*detail.mutable_what()),
          .why = std::move(*detail.mutable_why()),
          .fix = std::move(*detail.mutable_fix())};
}

std::string CodeOf(const absl::Status& status) { return ProblemOf(status).code; }

std::string Readable(const Problem& problem) {
  return StrCat(problem.code.empty() ? "" : StrCat("[", problem.code, "] "), problem.what,
                problem.why.empty() ? "" : ": ", problem.why,
                problem.fix.empty() ? "" : "; fix: ", problem.fix);
}

bool CopyDetail(const absl::Status& status, v1::ErrorDetail* detail) {
  const auto payload = status.GetPayload(kTypeUrl);
  return payload.has_value() && detail->ParseFromString(std::string(*payload));
}

absl::Status StatusOf(absl::StatusCode code, const std::string& message,
                      const v1::ErrorDetail& detail) {
  if (code == absl::StatusCode::kOk || detail.code().empty()) return absl::Status(code, message);
  return WithDetail(code, message, detail);
}

}  // namespace muster::common
