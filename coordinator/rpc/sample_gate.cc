#include "coordinator/rpc/sample_gate.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {

SampleGate::Taken SampleGate::Take(Parts& parts, const std::string& node, int64_t now_ms) {
  const auto found = parts.find(node);
  if (found == parts.end()) return {Verdict::kNotItsOwn};
  Part& part = found->second;
  const double seconds = static_cast<double>(now_ms - part.counted_ms) / 1'000;
  part.counted_ms = now_ms;
  part.allowance = std::min(part.allowance + seconds * kBatchesPerSecond, kBatchesAtOnce);
  if (part.allowance < 1) return {};
  part.allowance -= 1;
  return {Verdict::kMay, part.part};
}

void SampleGate::Find(Jobs& jobs, Process& process, uint64_t job, uint32_t attempt,
                      const std::string& node, Answer answer) {
  const int64_t now_ms = process.clock.Read().mono_ms;
  {
    std::unique_lock lock(mutex_);
    const auto after = attempts_.upper_bound({job, UINT32_MAX});
    const bool is_stale = after != attempts_.begin() && std::prev(after)->first.first == job &&
                          std::prev(after)->first.second > attempt;
    if (is_stale) {
      lock.unlock();
      return answer(Verdict::kNotNow, nullptr);
    }
    // An attempt's parts are assigned together, when it starts.
    if (const auto known = attempts_.find({job, attempt}); known != attempts_.end()) {
      Taken taken = Take(known->second, node, now_ms);
      lock.unlock();
      return answer(taken.verdict, std::move(taken.part));
    }
  }
  FindJob(jobs, process, Caller{}, std::to_string(job),
          [this, job, attempt, node, now_ms,
           answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok() || !found->live) return answer(Verdict::kNotNow, nullptr);
            Parts parts;
            for (const v1::Attempt& each : found->record->attempts()) {
              if (each.number() > attempt) return answer(Verdict::kNotNow, nullptr);
              if (each.number() != attempt) continue;
              for (const v1::NodePart& part : each.parts()) {
                parts[part.node()] = {
                    .part = std::make_shared<const SampledPart>(SampledPartOf(part)),
                    .counted_ms = now_ms};
              }
            }
            if (parts.empty()) return answer(Verdict::kNotNow, nullptr);
            Taken taken = Take(parts, node, now_ms);
            {
              std::lock_guard lock(mutex_);
              if (attempts_.size() >= kAttemptsMax) attempts_.clear();
              attempts_[{job, attempt}] = std::move(parts);
            }
            answer(taken.verdict, std::move(taken.part));
          });
}

void SampleGate::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  attempts_.erase(attempts_.lower_bound({job, 0}), attempts_.upper_bound({job, UINT32_MAX}));
}

}  // namespace muster::coordinator
