// Lists checkpoints, decides which to keep, and removes the others; see checkpoint_options.h.
#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/files.h"
#include "checkpoint/checkpoint_directory.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

void require_sane(const CheckpointPolicy& policy) {
  if (policy.keep_last < 0 || policy.keep_every < 0 || policy.keep_best < 0) {
    throw std::invalid_argument("CheckpointPolicy: keep_last=" + std::to_string(policy.keep_last) +
                                ", keep_every=" + std::to_string(policy.keep_every) +
                                ", keep_best=" + std::to_string(policy.keep_best) +
                                ": none of them may be negative");
  }
}

// (value, step), the best one first; values are negated if greater is better.
std::vector<std::pair<double, int64_t>> ranking(const std::vector<CheckpointInfo>& checkpoints,
                                                const std::string& metric, MetricMode mode) {
  std::vector<std::pair<double, int64_t>> ranked;
  for (const CheckpointInfo& checkpoint : checkpoints) {
    const auto found = checkpoint.metrics.find(metric);
    if (found == checkpoint.metrics.end() || std::isnan(found->second)) continue;
    ranked.emplace_back(mode == MetricMode::min ? found->second : -found->second, checkpoint.step);
  }
  std::sort(ranked.begin(), ranked.end());
  return ranked;
}

}  // namespace

std::vector<CheckpointInfo> list_checkpoints(const std::string& directory) {
  std::vector<CheckpointInfo> checkpoints;
  for (const int64_t step : list_steps(directory)) {
    const std::string path = directory + "/" + step_name(step);
    try {
      const Manifest manifest = read_checkpoint(path, /*verify_hashes=*/false);
      checkpoints.push_back(
          {step, path, manifest.created_ms, manifest.world_size, manifest.metrics});
    } catch (const Error&) {
      // Not a complete checkpoint: do not list it.
    }
  }
  return checkpoints;
}

std::optional<CheckpointInfo> latest_checkpoint(const std::string& directory) {
  std::vector<CheckpointInfo> checkpoints = list_checkpoints(directory);
  if (checkpoints.empty()) return std::nullopt;
  return std::move(checkpoints.back());
}

std::optional<CheckpointInfo> best_checkpoint(const std::string& directory,
                                              const std::string& metric, MetricMode mode) {
  const std::vector<CheckpointInfo> checkpoints = list_checkpoints(directory);
  const auto ranked = ranking(checkpoints, metric, mode);
  if (ranked.empty()) return std::nullopt;
  return *std::find_if(checkpoints.begin(), checkpoints.end(), [&](const CheckpointInfo& one) {
    return one.step == ranked.front().second;
  });
}

std::vector<int64_t> checkpoints_to_remove(const std::vector<CheckpointInfo>& checkpoints,
                                           const CheckpointPolicy& policy,
                                           int64_t removable_up_to) {
  require_sane(policy);
  if (policy.keep_last == 0) return {};
  std::set<int64_t> steps;
  for (const CheckpointInfo& checkpoint : checkpoints) steps.insert(checkpoint.step);
  std::set<int64_t> stay;
  int newest = 0;
  bool held_one_stays = false;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (newest++ < policy.keep_last) stay.insert(*step);
    if (*step > removable_up_to) {
      stay.insert(*step);
    } else if (!std::exchange(held_one_stays, true)) {
      stay.insert(*step);  // the newest one at the coordinator: a restart would use it
    }
    if (policy.keep_every > 0 && *step % policy.keep_every == 0) stay.insert(*step);
  }
  if (!policy.best_metric.empty()) {
    const auto ranked = ranking(checkpoints, policy.best_metric, policy.best_mode);
    for (size_t i = 0; i < ranked.size() && i < static_cast<size_t>(policy.keep_best); ++i) {
      stay.insert(ranked[i].second);
    }
  }
  std::vector<int64_t> removed;
  std::set_difference(steps.begin(), steps.end(), stay.begin(), stay.end(),
                      std::back_inserter(removed));
  return removed;
}

Retention::Retention(CheckpointPolicy policy) : policy_(std::move(policy)) {
  require_sane(policy_);
}

void Retention::apply(const std::string& directory, int64_t saved_step, int64_t removable_up_to) {
  if (policy_.keep_last == 0) return;
  std::vector<CheckpointInfo> checkpoints;
  metrics_.erase(saved_step);  // a step may be saved again
  for (const int64_t step : list_steps(directory)) {
    CheckpointInfo info;
    info.step = step;
    info.path = directory + "/" + step_name(step);
    if (!policy_.best_metric.empty()) {
      const auto [known, is_new] = metrics_.try_emplace(step);
      if (is_new) known->second = read_metrics(info.path);
      info.metrics = known->second;
    }
    checkpoints.push_back(std::move(info));
  }
  for (const int64_t step : checkpoints_to_remove(checkpoints, policy_, removable_up_to)) {
    // Damaged checkpoints with a greater step, which the run skipped, must not displace it.
    if (step == saved_step) continue;
    const std::string path = directory + "/" + step_name(step);
    const std::string aside = path + ".tmp";
    remove_tree(aside);
    if (std::rename(path.c_str(), aside.c_str()) != 0) throw_errno("remove", path);
    remove_tree(aside);
    metrics_.erase(step);
  }
}

}  // namespace muster
