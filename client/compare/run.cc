#include "client/compare/run.h"

#include <fnmatch.h>

#include <algorithm>

#include "client/compare/epochs.h"
#include "common/loss_name.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::client {

bool MatchesKey(std::string_view name, const std::string& key) {
  return name == key || fnmatch(key.c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

bool IsWanted(std::string_view name, const WantedMetrics& wanted) {
  return IsEpochMetric(name) || (wanted.keys.empty() && common::IsLossName(name)) ||
         std::any_of(wanted.keys.begin(), wanted.keys.end(),
                     [name](const std::string& key) { return MatchesKey(name, key); });
}

absl::Status PointBudget::Take() {
  if (++taken_ <= kPointsMax) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1544",
       .what = common::StrCat("the metrics to compare have more than ", kPointsMax, " points"),
       .fix = "compare fewer metrics at once (--key), or fewer runs"});
}

const Series* ComparedRun::Find(const std::string& key) const {
  const auto found = series.find(key);
  return found == series.end() ? nullptr : &found->second;
}

RunBuilder::Metric& RunBuilder::Find(std::string_view name) {
  const auto found = metrics_.find(name);
  if (found != metrics_.end()) return found->second;
  Metric& metric = metrics_[std::string(name)];
  metric.wanted = IsWanted(name, wanted_);
  return metric;
}

void RunBuilder::Know(std::string_view name) { Find(name); }

absl::Status RunBuilder::Add(std::string_view name, int64_t rank, int64_t step, double value) {
  Metric& metric = Find(name);
  if (!metric.wanted || (wanted_.rank >= 0 && rank != wanted_.rank) || rank > metric.rank) {
    return absl::OkStatus();
  }
  if (rank < metric.rank) {
    metric.series.Clear();
    metric.rank = rank;
  }
  RETURN_IF_ERROR(budget_->Take());
  metric.series.Add(step, value);
  return absl::OkStatus();
}

void RunBuilder::ReplaceFrom(std::string_view name, int64_t step) {
  Find(name).series.ReplaceFrom(step);
}

ComparedRun RunBuilder::Finish(std::string name) {
  ComparedRun run{.name = std::move(name)};
  for (auto& [key, metric] : metrics_) {
    run.names.push_back(key);
    if (metric.rank == INT64_MAX) continue;
    metric.series.Finish();
    run.series.emplace(key, std::move(metric.series));
  }
  metrics_.clear();
  return run;
}

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
