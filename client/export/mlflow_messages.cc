#include "client/export/mlflow_messages.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "client/text/record_text.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::JsonArray;
using common::JsonObject;
using common::JsonText;
using common::StrAppend;
using common::StrCat;

constexpr size_t kMetricBytesMost = 1'000;  // one metric's JSON with the longest name

std::string_view MlflowStatus(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_SUCCEEDED:
      return "FINISHED";
    case v1::JOB_STATE_FAILED:
      return "FAILED";
    case v1::JOB_STATE_CANCELLED:
      return "KILLED";
    case v1::JOB_STATE_QUEUED:
      return "SCHEDULED";
    default:
      return "RUNNING";
  }
}

JsonText Tag(std::string_view key, std::string_view value) {
  return JsonObject().Add("key", key).Add("value", value).Done();
}

// At most `most` bytes, not cut inside a character.
std::string_view CutText(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace

std::string MlflowName(std::string_view name) {
  std::string clean;
  for (const char c : CutText(name, kMlflowNameBytesMax)) {
    const bool allowed = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                         std::string_view("_-. /").find(c) != std::string_view::npos;
    clean += allowed ? c : '_';
  }
  // No component of the path may be empty or lead up.
  std::string out;
  for (size_t at = 0; at <= clean.size();) {
    const size_t end = std::min(clean.find('/', at), clean.size());
    std::string part = clean.substr(at, end - at);
    if (part.empty() || part.find_first_not_of('.') == std::string::npos) part = "_";
    StrAppend(&out, at == 0 ? "" : "/", part);
    at = end + 1;
  }
  return out;
}

std::string CreateExperimentBody(const std::string& name) {
  return JsonObject().Add("name", name).Text();
}

std::string CreateRunBody(const std::string& experiment_id, const v1::JobRecord& record) {
  const JsonText tags = JsonArray()
                            .Add(Tag("mlflow.runName", record.name()))
                            .Add(Tag("mlflow.user", record.owner()))
                            .Add(Tag("muster.job", std::to_string(record.id())))
                            .Add(Tag("muster.state", StateName(record.state())))
                            .Done();
  return JsonObject()
      .Add("experiment_id", experiment_id)
      .Add("run_name", record.name())
      .Add("start_time",
           record.first_running_ms() > 0 ? record.first_running_ms() : record.submitted_ms())
      .Add("tags", tags)
      .Text();
}

std::string ParamsBody(const std::string& run_id,
                       const std::vector<std::pair<std::string, std::string>>& params) {
  JsonArray list;
  for (size_t i = 0; i < params.size() && i < kMlflowParamsMax; ++i)
    list.Add(Tag(MlflowName(params[i].first), CutText(params[i].second, kMlflowParamBytesMax)));
  return JsonObject().Add("run_id", run_id).Add("params", list.Done()).Text();
}

std::string UpdateRunBody(const std::string& run_id, const v1::JobRecord& record) {
  JsonObject body;
  body.Add("run_id", run_id).Add("status", MlflowStatus(record.state()));
  if (record.finished_ms() > 0) body.Add("end_time", record.finished_ms());
  return body.Text();
}

std::string DeleteRunBody(const std::string& run_id) {
  return JsonObject().Add("run_id", run_id).Text();
}

void MlflowBatch::Add(const ExportedPoint& point, uint32_t first_rank) {
  const std::string name = point.rank == first_rank ? std::string(point.name)
                                                    : StrCat("rank-", point.rank, "/", point.name);
  StrAppend(&metrics_, count_ == 0 ? "" : ", ",
            JsonObject()
                .Add("key", MlflowName(name))
                .Add("value", point.value)
                .Add("timestamp", point.time_ms)
                .Add("step", point.step)
                .Text());
  ++count_;
}

bool MlflowBatch::full() const {
  return count_ >= kMlflowMetricsMax ||
         metrics_.size() + run_id_.size() + kMetricBytesMost > kMlflowBytesMax;
}

std::string MlflowBatch::Take() {
  const JsonText metrics{StrCat("[", metrics_, "]")};
  std::string body = JsonObject().Add("run_id", run_id_).Add("metrics", metrics).Text();
  metrics_.clear();
  count_ = 0;
  return body;
}

}  // namespace muster::client
