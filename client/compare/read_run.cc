#include "client/compare/read_run.h"

#include "common/base/status.h"
#include "common/problem.h"

namespace muster::client {

absl::Status UnreadableRun(const absl::Status& error) {
  return common::MakeProblem(
      absl::IsNotFound(error) ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
      {.code = "JC1005",
       .what = common::MessageOf(error),
       .fix = "check the path; a job is named without a slash"});
}

absl::Status NotMetrics(std::string_view what, std::string_view fix) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1543", .what = std::string(what), .fix = std::string(fix)});
}

bool IsPathOfRun(std::string_view word) {
  return word.find('/') != std::string_view::npos || word == "." || word == ".." ||
         word.ends_with(".csv") || word.find("tfevents") != std::string_view::npos;
}

}  // namespace muster::client
