#include "coordinator/local/metric_reader.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status.h"

namespace muster::coordinator {

absl::Status LocalMetricReader::FindSegments() {
  const absl::StatusOr<std::vector<std::string>> names =
      common::ListDirectory(paths_.MetricDirectory(job_));
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    uint32_t attempt = 0;
    absl::string_view number = name;
    if (!absl::ConsumeSuffix(&number, ".mseg") || !absl::SimpleAtoi(number, &attempt)) continue;
    segments_.try_emplace(attempt, paths_.MetricFile(job_, attempt));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LocalMetricReader::Next(v1::MetricBatch& batch) {
  if (!at_.has_value()) {
    RETURN_IF_ERROR(FindSegments());
    if (segments_.empty()) return false;
    at_ = segments_.begin()->first;
  }
  for (auto segment = segments_.find(*at_); segment != segments_.end(); ++segment) {
    at_ = segment->first;
    ASSIGN_OR_RETURN(const bool found, segment->second.Next(batch));
    if (found) return true;
  }
  at_.reset();
  return false;
}

}  // namespace muster::coordinator
