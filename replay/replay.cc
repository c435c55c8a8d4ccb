#include "replay/replay.h"

#include <algorithm>

#include "common/base/status.h"

namespace muster::replay {
namespace {

double HoursOf(int64_t ms) { return static_cast<double>(ms) / 3'600'000; }

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double At(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

uint64_t DevicesOf(const coordinator::ClusterState& state) {
  uint64_t devices = 0;
  for (const auto& [name, node] : state.nodes)
    devices += static_cast<uint64_t>(node.record.facts().devices_size());
  return devices;
}

}  // namespace

Waits WaitsOf(const std::vector<TracedJob>& jobs, const std::vector<double>& waits_h) {
  std::vector<double> sorted = waits_h, large, completions;
  for (size_t i = 0; i < waits_h.size(); ++i) {
    if (jobs[i].devices >= 8) large.push_back(waits_h[i]);
    completions.push_back(waits_h[i] + HoursOf(jobs[i].duration_ms));
  }
  std::sort(sorted.begin(), sorted.end());
  return {.mean_h = Mean(sorted),
          .p95_h = At(sorted, 0.95),
          .max_h = At(sorted, 1),
          .mean_large_h = Mean(large),
          .completion_h = Mean(completions)};
}

absl::StatusOr<Outcome> Replay(const std::vector<TracedJob>& jobs, Cluster& cluster) {
  const int64_t begin_ms = cluster.now_ms() - (jobs.empty() ? 0 : jobs.front().submit_ms);
  size_t next = 0;
  while (next < jobs.size() || cluster.HasEnds()) {
    const bool more = next < jobs.size();
    cluster.PassTime(more ? begin_ms + jobs[next].submit_ms : Cluster::kLongMs);
    for (; next < jobs.size() && begin_ms + jobs[next].submit_ms <= cluster.now_ms(); ++next)
      cluster.Submit(jobs[next]);
    cluster.Settle();
    RETURN_IF_ERROR(cluster.status());
  }
  Outcome outcome{.jobs = jobs.size(), .ended = cluster.ends_at_ms().size()};
  std::vector<TracedJob> ended;
  std::vector<double> waits_h;
  double used_ms = 0;
  int64_t last_ms = 0;
  for (const auto& [job, end_ms] : cluster.ends_at_ms()) {
    const TracedJob& traced = ended.emplace_back(jobs[job - 1]);
    waits_h.push_back(HoursOf(end_ms - begin_ms - traced.submit_ms - traced.duration_ms));
    used_ms += static_cast<double>(traced.duration_ms) * traced.devices;
    last_ms = std::max(last_ms, end_ms - begin_ms - jobs.front().submit_ms);
  }
  outcome.waits = WaitsOf(ended, waits_h);
  if (last_ms > 0) {
    outcome.use =
        used_ms / (static_cast<double>(last_ms) * static_cast<double>(DevicesOf(cluster.state())));
  }
  outcome.gave_way = cluster.gave_way();
  outcome.jobs_that_gave_way = cluster.jobs_that_gave_way();
  return outcome;
}

}  // namespace muster::replay
