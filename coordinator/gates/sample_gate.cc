#include "coordinator/gates/sample_gate.h"

#include <algorithm>
#include <utility>

#include "coordinator/contexts/lookup.h"

namespace muster::coordinator {

SampleGate::Taken SampleGate::Take(Attempt& newest, uint32_t attempt, const std::string& node,
                                   int64_t now_ms) {
  if (newest.number != attempt) return {};
  std::lock_guard lock(newest.mutex);
  const auto found = newest.parts.find(node);
  if (found == newest.parts.end()) return {Verdict::kNotItsOwn};
  Part& part = found->second;
  const double seconds = static_cast<double>(now_ms - part.counted_ms) / 1'000;
  part.counted_ms = now_ms;
  part.allowance = std::min(part.allowance + seconds * kBatchesPerSecond, kBatchesAtOnce);
  if (part.allowance < 1) return {};
  part.allowance -= 1;
  return {Verdict::kMay, part.part};
}

SampleGate::Attempts::Found SampleGate::NewestOf(const v1::JobRecord& record, int64_t now_ms) {
  auto newest = std::make_shared<Attempt>();
  const auto& attempts = record.attempts();
  const auto last = std::max_element(
      attempts.begin(), attempts.end(),
      [](const v1::Attempt& a, const v1::Attempt& b) { return a.number() < b.number(); });
  if (last == attempts.end() || last->parts().empty())
    return absl::NotFoundError("no attempt has parts");
  newest->number = last->number();
  for (const v1::NodePart& part : last->parts()) {
    newest->parts[part.node()] = {.part = std::make_shared<const SampledPart>(SampledPartOf(part)),
                                  .counted_ms = now_ms};
  }
  return newest;
}

void SampleGate::Find(Jobs& jobs, Process& process, uint64_t job, uint32_t attempt,
                      const std::string& node, Answer answer) {
  const int64_t now_ms = process.clock.Read().mono_ms;
  attempts_.Get(
      job,
      [&jobs, &process, job, now_ms](std::function<void(Attempts::Found)> done) {
        FindJob(jobs, process, Caller{}, std::to_string(job),
                [done = std::move(done), now_ms](const absl::StatusOr<FoundJob>& found) {
                  if (!found.ok()) return done(found.status());
                  if (!found->live) return done(absl::NotFoundError("the job is over"));
                  done(NewestOf(*found->record, now_ms));
                });
      },
      [attempt, node, now_ms, answer = std::move(answer)](const Attempts::Found& newest) {
        if (!newest.ok()) return answer(Verdict::kNotNow, nullptr);
        Taken taken = Take(**newest, attempt, node, now_ms);
        answer(taken.verdict, std::move(taken.part));
      },
      // A newer attempt than the known one may have started since.
      [attempt](const Attempts::Found& newest) {
        return newest.ok() && (*newest)->number >= attempt;
      });
}

void SampleGate::Forget(uint64_t job) { attempts_.Forget(job); }

}  // namespace muster::coordinator
