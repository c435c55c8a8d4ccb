#include "coordinator/core/forecast.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/shape.h"
#include "common/text/units.h"
#include "coordinator/core/scheduling/pass.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kListedByDefault = 100;
constexpr uint32_t kListedMax = 1'000;

// limit: calls: passes of a forecast; jobs that would start later have no expected start
constexpr size_t kPassesMax = 500;
// limit: calls: what all passes of a forecast look at: nodes and waiting jobs; likewise
constexpr size_t kLooksMax = 3'000'000;

enum class Ends { kExpected, kLate };

class Forecast {
 public:
  Forecast(SchedulingState state, Ends ends, Now now)
      : state_(std::move(state)), ends_(ends), begin_(now), now_(now) {
    for (const Occupant& occupant : OccupantsOf(state_, now)) {
      if (occupant.end.at_mono_ms.has_value())
        AddEnd(occupant.job->id(), *occupant.end.at_mono_ms, occupant.end.allowance_ms);
    }
  }

  // Milliseconds from now on, by job.
  std::map<uint64_t, int64_t> Run() {
    for (size_t passes = 0; passes < kPassesMax && looks_ < kLooksMax; ++passes) {
      if (state_.queue.empty()) break;
      StartWhatFits();
      if (!PassToNextEnd()) break;
    }
    return std::move(starts_);
  }

 private:
  void AddEnd(uint64_t job, int64_t at_mono_ms, int64_t allowance_ms) {
    end_times_.emplace(at_mono_ms + (ends_ == Ends::kLate ? allowance_ms : 0), job);
  }

  void StartWhatFits() {
    Pass pass(state_, state_.asides, now_);
    std::vector<Verdict> verdicts = pass.Run();
    looks_ += pass.looks() + pass.order().size() + state_.active.size();
    for (Verdict& verdict : verdicts) {
      if (!verdict.start.has_value()) continue;
      const uint64_t id = verdict.job;
      starts_[id] = now_.mono_ms - begin_.mono_ms;
      const std::optional<int64_t> run_ms = ExpectedRunMs(state_, state_.jobs.at(id));
      v1::JobRecord& job = state_.jobs.Edit(id);
      Dequeue(state_, job);
      state_.told.erase(id);
      state_.asides.others.erase(id);
      job.set_state(v1::JOB_STATE_RUNNING);
      *job.add_attempts() = *std::move(verdict.start);
      Occupy(state_, *job.attempts().rbegin(), true);
      state_.active.insert(id);
      state_.timers[id] = {.attempt_since_mono_ms = now_.mono_ms};
      if (run_ms.has_value()) AddEnd(id, now_.mono_ms + *run_ms, AllowanceOf(*run_ms));
    }
  }

  // False: no further end is known.
  bool PassToNextEnd() {
    if (end_times_.empty()) return false;
    const int64_t at = end_times_.begin()->first;
    for (; !end_times_.empty() && end_times_.begin()->first == at;
         end_times_.erase(end_times_.begin())) {
      const uint64_t id = end_times_.begin()->second;
      state_.active.erase(id);
      Occupy(state_, *LiveAttempt(state_.jobs.at(id)), false);
    }
    const int64_t passed = std::max<int64_t>(0, at - now_.mono_ms);
    now_.mono_ms += passed;
    now_.wall_ms += passed;
    now_.lived_ms += passed;
    return true;
  }

  SchedulingState state_;
  const Ends ends_;
  const Now begin_;
  Now now_;
  std::multimap<int64_t, uint64_t> end_times_;  // when, and whose
  std::map<uint64_t, int64_t> starts_;
  size_t looks_ = 0;
};

v1::QueuedJob View(Pass& pass, const SchedulingState& state, const v1::JobRecord& job,
                   const std::string& usual_kind) {
  v1::QueuedJob view;
  view.set_id(job.id());
  view.set_name(job.name());
  view.set_owner(job.owner());
  view.set_owner_id(job.owner_id());
  view.set_project(ProjectOf(job));
  view.set_priority(job.spec().priority());
  view.set_urgent(job.urgent());
  view.set_submitted_ms(job.submitted_ms());
  view.set_estimate_ms(job.spec().estimate_ms());
  const std::string& named = job.spec().shape().device().kind();
  view.set_needs(job::DescribeDemand(job.spec().shape(), named.empty() ? usual_kind : named));
  const HeldPlace* own = pass.PlaceFor(job);
  const HeldPlace* ahead = pass.PlaceAhead(job);
  if (own != nullptr) view.set_place(DescribeShares(own->shares));
  const bool is_behind = job.reason() == RowOf(Reason::kBehindOthers).text;
  view.set_reason(ahead != nullptr && own == nullptr && is_behind
                      ? absl::StrCat("waits behind ", state.jobs.at(ahead->holder.job).name())
                      : job.reason());
  return view;
}

}  // namespace

std::map<uint64_t, v1::StartTimes> ForeseeStarts(const SchedulingState& shared, Now now) {
  std::map<uint64_t, v1::StartTimes> times;
  const std::map<uint64_t, int64_t> late = Forecast(shared, Ends::kLate, now).Run();
  for (const auto& [job, start_ms] : Forecast(shared, Ends::kExpected, now).Run()) {
    const auto later = late.find(job);
    // More ends late may start a job earlier: others are not there yet.
    times[job].set_from_ms(later == late.end() ? start_ms : std::min(start_ms, later->second));
    if (later != late.end()) times[job].set_until_ms(std::max(start_ms, later->second));
  }
  return times;
}

std::string DescribeStarts(const v1::StartTimes& starts) {
  const std::string from = common::RoughDuration(starts.from_ms());
  if (!starts.has_until_ms())
    return absl::StrCat("expected to start in ", from, " at the earliest");
  const std::string until = common::RoughDuration(starts.until_ms());
  return absl::StrCat("expected to start in ", from, from == until ? "" : " to ",
                      from == until ? "" : until);
}

v1::ListQueueResponse ViewQueue(const SchedulingState& shared, const StartsByJob& starts,
                                uint32_t limit, Now now) {
  v1::ListQueueResponse response;
  response.set_total(shared.queue.size() + shared.left_out);
  const size_t most = std::min(limit == 0 ? kListedByDefault : limit, kListedMax);
  Asides found;
  Pass pass(shared, found, now);
  pass.Run();
  const std::string usual_kind = ResolveKind(shared, {});
  std::vector<uint64_t> order = pass.order();
  const std::unordered_set<uint64_t> had_turns(order.begin(), order.end());
  for (const QueuePlace& place : shared.queue) {
    if (!had_turns.contains(place.job)) order.push_back(place.job);
  }
  order.resize(std::min(order.size(), most));
  for (const uint64_t id : order) {
    v1::QueuedJob& job = *response.add_jobs() = View(pass, shared, shared.jobs.at(id), usual_kind);
    if (const auto at = starts.find(id); at != starts.end()) *job.mutable_starts() = at->second;
  }
  return response;
}

}  // namespace muster::coordinator
