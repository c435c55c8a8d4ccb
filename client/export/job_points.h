// A job's points for an export, as the coordinator streams them. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/point_text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;

struct PointSelection {
  std::vector<std::string> keys;  // names, or patterns with * and ?; empty: all
  int64_t attempt = -1;           // -1: the job's effective history
  int64_t rank = -1;              // -1: all
};

// Which ranks logged metrics that are selected, in order. Errors: JC1503 for a key that matches none.
absl::StatusOr<std::vector<uint32_t>> RanksOfPoints(const std::string& job,
                                                    const v1::MetricSummaries& summaries,
                                                    const PointSelection& selection);

using OnPoint = std::function<absl::Status(const ExportedPoint& point)>;
// Calls `on_point` until it returns an error, which is then returned. `job`: its name.
absl::Status ForEachPoint(Connection& connection, const std::string& job,
                          const v1::MetricSummaries& summaries, const PointSelection& selection,
                          const OnPoint& on_point);

}  // namespace muster::client
