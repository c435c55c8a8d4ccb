#include "coordinator/rpc/sample_gate.h"

#include <iterator>
#include <utility>

#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {
namespace {

std::shared_ptr<const SampledPart> PartAt(
    const std::unordered_map<std::string, std::shared_ptr<const SampledPart>>& parts,
    const std::string& node) {
  const auto found = parts.find(node);
  return found == parts.end() ? nullptr : found->second;
}

}  // namespace

void SampleGate::Find(Daemon& daemon, uint64_t job, uint32_t attempt, const std::string& node,
                      Answer answer) {
  {
    std::unique_lock lock(mutex_);
    const auto after = attempts_.upper_bound({job, UINT32_MAX});
    const bool is_stale = after != attempts_.begin() && std::prev(after)->first.first == job &&
                          std::prev(after)->first.second > attempt;
    if (is_stale) {
      lock.unlock();
      return answer(nullptr);
    }
    // An attempt's parts are assigned together, when it starts.
    if (const auto known = attempts_.find({job, attempt}); known != attempts_.end()) {
      auto part = PartAt(known->second, node);
      lock.unlock();
      return answer(std::move(part));
    }
  }
  FindJob(daemon, Caller{}, std::to_string(job),
          [this, job, attempt, node, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok() || !found->live) return answer(nullptr);
            Parts parts;
            for (const v1::Attempt& each : found->record->attempts()) {
              if (each.number() > attempt) return answer(nullptr);
              if (each.number() != attempt) continue;
              for (const v1::NodePart& part : each.parts()) {
                parts[part.node()] = std::make_shared<const SampledPart>(SampledPartOf(part));
              }
            }
            if (parts.empty()) return answer(nullptr);
            auto part = PartAt(parts, node);
            {
              std::lock_guard lock(mutex_);
              if (attempts_.size() >= kAttemptsMax) attempts_.clear();
              attempts_[{job, attempt}] = std::move(parts);
            }
            answer(std::move(part));
          });
}

void SampleGate::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  attempts_.erase(attempts_.lower_bound({job, 0}), attempts_.upper_bound({job, UINT32_MAX}));
}

}  // namespace muster::coordinator
