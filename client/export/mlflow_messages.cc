#include "client/export/mlflow_messages.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "client/exact_number.h"
#include "client/json_quote.h"
#include "client/record_text.h"
#include "common/strings.h"

namespace muster::client {
namespace {

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

std::string Tag(std::string_view key, std::string_view value) {
  return StrCat("{\"key\": ", JsonQuote(key), ", \"value\": ", JsonQuote(value), "}");
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
  return StrCat("{\"name\": ", JsonQuote(name), "}");
}

std::string CreateRunBody(const std::string& experiment_id, const v1::JobRecord& record) {
  return StrCat("{\"experiment_id\": ", JsonQuote(experiment_id),
                ", \"run_name\": ", JsonQuote(record.name()), ", \"start_time\": ",
                record.first_running_ms() > 0 ? record.first_running_ms() : record.submitted_ms(),
                ", \"tags\": [", Tag("mlflow.runName", record.name()), ", ",
                Tag("mlflow.user", record.owner()), ", ",
                Tag("muster.job", std::to_string(record.id())), ", ",
                Tag("muster.state", StateName(record.state())), "]}");
}

std::string ParamsBody(const std::string& run_id,
                       const std::vector<std::pair<std::string, std::string>>& params) {
  std::string list;
  for (size_t i = 0; i < params.size() && i < kMlflowParamsMax; ++i) {
    StrAppend(&list, i == 0 ? "" : ", ",
              Tag(MlflowName(params[i].first), CutText(params[i].second, kMlflowParamBytesMax)));
  }
  return StrCat("{\"run_id\": ", JsonQuote(run_id), ", \"params\": [", list, "]}");
}

std::string UpdateRunBody(const std::string& run_id, const v1::JobRecord& record) {
  return StrCat(
      "{\"run_id\": ", JsonQuote(run_id), ", \"status\": \"", MlflowStatus(record.state()), "\"",
      record.finished_ms() > 0 ? StrCat(", \"end_time\": ", record.finished_ms()) : std::string(),
      "}");
}

std::string DeleteRunBody(const std::string& run_id) {
  return StrCat("{\"run_id\": ", JsonQuote(run_id), "}");
}

void MlflowBatch::Add(const ExportedPoint& point, uint32_t first_rank) {
  const std::string name = point.rank == first_rank ? std::string(point.name)
                                                    : StrCat("rank-", point.rank, "/", point.name);
  StrAppend(&metrics_, count_ == 0 ? "" : ", ", "{\"key\": ", JsonQuote(MlflowName(name)),
            ", \"value\": ", ExactJson(point.value), ", \"timestamp\": ", point.time_ms,
            ", \"step\": ", point.step, "}");
  ++count_;
}

bool MlflowBatch::full() const {
  return count_ >= kMlflowMetricsMax ||
         metrics_.size() + run_id_.size() + kMetricBytesMost > kMlflowBytesMax;
}

std::string MlflowBatch::Take() {
  std::string body =
      StrCat("{\"run_id\": ", JsonQuote(run_id_), ", \"metrics\": [", metrics_, "]}");
  metrics_.clear();
  count_ = 0;
  return body;
}

}  // namespace muster::client
