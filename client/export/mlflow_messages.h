// Bodies of the REST calls that export to an MLflow tracking server, within its limits. Pure.
// Source: MLflow's REST API 2.0 and mlflow/utils/validation.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/export/point_text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

// The limits of one log-batch request.
inline constexpr size_t kMlflowMetricsMax = 1'000;
inline constexpr size_t kMlflowParamsMax = 100;
inline constexpr size_t kMlflowBytesMax = 1'000'000;
inline constexpr size_t kMlflowParamBytesMax = 500;  // of a param's value
inline constexpr size_t kMlflowNameBytesMax = 250;

// A name that MLflow accepts: letters, digits and "_-. /" stay; everything else becomes "_", as
// does a path component that is empty or only dots.
std::string MlflowName(std::string_view name);

std::string CreateExperimentBody(const std::string& name);
std::string CreateRunBody(const std::string& experiment_id, const v1::JobRecord& record);
// The first kMlflowParamsMax params; further ones are left out.
std::string ParamsBody(const std::string& run_id,
                       const std::vector<std::pair<std::string, std::string>>& params);
std::string UpdateRunBody(const std::string& run_id, const v1::JobRecord& record);
std::string DeleteRunBody(const std::string& run_id);

// Collects metrics until a request is full.
class MlflowBatch {
 public:
  explicit MlflowBatch(std::string run_id) : run_id_(std::move(run_id)) {}
  // Ranks other than `first_rank` get the prefix "rank-N/".
  void Add(const ExportedPoint& point, uint32_t first_rank);
  bool full() const;
  bool empty() const { return count_ == 0; }
  // The body of log-batch; the batch is empty afterwards.
  std::string Take();

 private:
  const std::string run_id_;
  std::string metrics_;
  size_t count_ = 0;
};

}  // namespace muster::client
