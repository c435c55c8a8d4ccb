// attempt_scanner: see the header.
#include "worker/events/attempt_scanner.h"

#include <utility>

namespace muster::worker {
namespace {

constexpr size_t kStepsPerLook = 64;

}  // namespace

AttemptScanner::AttemptScanner(Setup setup)
    : checkpoints_dir_(std::move(setup.checkpoints_dir)),
      known_(std::move(setup.known)),
      tailer_(std::move(setup.events),
              {[this](const std::string& source) {
                 const auto known = known_.find(source);
                 return known == known_.end() ? std::pair<uint64_t, int64_t>(0, -1)
                                              : std::pair<uint64_t, int64_t>(known->second);
               },
               [this](uint32_t rank, v1::MetricBatch batch) {
                 found_.batches.emplace_back(rank, std::move(batch));
                 return true;
               },
               [this](const std::string& line) { found_.notes.push_back(line); }}) {}

Findings AttemptScanner::Look(const ScanOrder& order) {
  found_ = {};
  found_.final = order.final;
  for (const auto& [rank, pid] : order.pids) tailer_.SetPid(rank, pid);
  tailer_.SetRivals(order.rival_pids, order.crowded);
  for (const auto& [source, offset] : order.not_taken) tailer_.Rewind(source, offset);
  found_.more = tailer_.Scan(order.final);
  if (auto steps = FindSteps(checkpoints_dir_, seen_steps_, kStepsPerLook); steps.ok()) {
    for (const FoundStep& step : *steps) seen_steps_.insert(step.step);
    found_.more |= steps->size() == kStepsPerLook;
    found_.steps = *std::move(steps);
  }
  return std::move(found_);
}

}  // namespace muster::worker
