// How this library rejects a spec: INVALID_ARGUMENT with code, sentence and fix. Internal to
// common/job.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/problem.h"

namespace muster::job {

inline absl::Status Refuse(std::string_view code, std::string_view what, std::string_view fix) {
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = std::string(code), .what = std::string(what), .fix = std::string(fix)});
}

}  // namespace muster::job
