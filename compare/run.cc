#include "compare/run.h"

#include <fnmatch.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/loss_name.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "compare/epochs.h"

namespace muster::compare {

bool MatchesKey(std::string_view name, const std::string& key) {
  return name == key || fnmatch(key.c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

bool IsWanted(std::string_view name, const WantedMetrics& wanted) {
  return IsEpochMetric(name) || (wanted.keys.empty() && common::IsLossName(name)) ||
         std::any_of(wanted.keys.begin(), wanted.keys.end(),
                     [name](const std::string& key) { return MatchesKey(name, key); });
}

absl::Status PointBudget::Take() {
  if (++taken_ <= most_) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1544",
       .what = common::StrCat("the metrics to compare have more than ", most_, " points"),
       .fix = fix_});
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
  name_bytes_ += name.size() + sizeof(Metric);
  return metric;
}

void RunBuilder::Know(std::string_view name) { Find(name); }

absl::Status RunBuilder::Add(std::string_view name, int64_t rank, int64_t step, double value) {
  Metric& metric = Find(name);
  if (!metric.wanted || (wanted_.rank >= 0 && rank != wanted_.rank) || rank > metric.rank) {
    return absl::OkStatus();
  }
  if (rank < metric.rank) {
    budget_->Return(metric.series.Clear());
    metric.rank = rank;
  }
  RETURN_IF_ERROR(budget_->Take());
  metric.series.Add(step, value);
  return absl::OkStatus();
}

void RunBuilder::ReplaceFrom(std::string_view name, int64_t step) {
  budget_->Return(Find(name).series.ReplaceFrom(step));
}

ComparedRun RunBuilder::Finish(std::string name) {
  ComparedRun run{.name = std::move(name)};
  for (auto& [key, metric] : metrics_) {
    run.names.push_back(key);
    if (metric.rank == INT64_MAX) continue;
    budget_->Return(metric.series.Finish());
    run.series.emplace(key, std::move(metric.series));
  }
  metrics_.clear();
  return run;
}

}  // namespace muster::compare
