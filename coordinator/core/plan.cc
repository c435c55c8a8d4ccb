#include "coordinator/core/plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/job/validate.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/forecast.h"
#include "coordinator/core/scheduling/pass.h"
#include "coordinator/core/why.h"

namespace muster::coordinator {
namespace {

// Limits the cost of the copy. A scheduling pass looks at fewer jobs than this.
constexpr size_t kQueuedMax = 10'000;

// The attempt that the next pass would start for the job. If it would start none, sets `later` to what the job
// waits for.
std::optional<v1::Attempt> StartOf(SchedulingState& overlay, const v1::JobRecord& job, Now now,
                                   v1::PlanJobResponse* later = nullptr) {
  Pass pass(overlay, overlay.asides, now);
  for (Verdict& verdict : pass.Run()) {
    if (verdict.job == job.id() && verdict.start.has_value()) return std::move(verdict.start);
  }
  if (later != nullptr) {
    later->set_reason(WhyQueued(pass, overlay, job, now, later->mutable_details()));
  }
  return std::nullopt;
}

v1::Shape OnNodes(v1::Shape shape, uint32_t nodes) {
  shape.set_min_nodes(nodes);
  shape.set_max_nodes(nodes);
  return shape;
}

// Looks for a smaller job that only its place in the queue would hold back.
class SmallerSearch {
 public:
  SmallerSearch(SchedulingState& overlay, v1::JobRecord& job, Now now)
      : job_(job), wanted_(job.spec().shape()), pass_(overlay, overlay.asides, now) {}

  // Gives the job the largest such shape, and returns its flags: "-n 3". Empty: there is none.
  std::string Run() { return wanted_.per_node() == 0 ? LessProcesses() : LessNodes(); }

 private:
  bool Fits(const v1::Shape& shape) {
    *job_.mutable_spec()->mutable_shape() = shape;
    return pass_.MayStart(job_);
  }

  // The largest value in [1, most] for which `with` makes a shape that fits now; the job then has that shape. 0 if
  // there is none. A larger shape never fits where a smaller one does not.
  template <typename With>
  uint32_t Largest(uint32_t most, With with) {
    uint32_t fits = 0, too_many = most + 1;
    while (fits + 1 < too_many) {
      const uint32_t middle = fits + (too_many - fits) / 2;
      (Fits(with(middle)) ? fits : too_many) = middle;
    }
    if (fits > 0) *job_.mutable_spec()->mutable_shape() = with(fits);
    return fits;
  }

  std::string LessProcesses() {
    const auto with = [&](uint32_t processes) {
      v1::Shape shape = wanted_;
      shape.set_processes(processes);
      return shape;
    };
    // Below one rank per node nothing fits, so the search starts there.
    const uint32_t least = std::max<uint32_t>(1, wanted_.min_nodes());
    if (!Fits(with(least))) return "";
    const uint32_t more =
        Largest(wanted_.processes() - least, [&](uint32_t extra) { return with(least + extra); });
    *job_.mutable_spec()->mutable_shape() = with(least + more);
    return absl::StrCat("-n ", least + more);
  }

  std::string LessNodes() {
    const auto on = [&](uint32_t nodes) { return OnNodes(wanted_, nodes); };
    const uint32_t nodes = Largest(std::max<uint32_t>(1, wanted_.min_nodes()), on);
    if (nodes > 0) return absl::StrCat("--set resources.nodes=", nodes);
    const auto per_node = [&](uint32_t ranks) {
      v1::Shape shape = OnNodes(wanted_, 1);
      shape.set_per_node(ranks);
      return shape;
    };
    const uint32_t ranks = Largest(wanted_.per_node(), per_node);
    if (ranks == 0) return "";
    return absl::StrCat("--set resources.nodes=1 --set resources.per_node=", ranks);
  }

  v1::JobRecord& job_;
  const v1::Shape wanted_;
  Pass pass_;
};

// Flags of a smaller job that would start now; empty if jobs ahead would not let it.
std::string SmallerThatStarts(SchedulingState& overlay, uint64_t id, Now now) {
  v1::JobRecord& job = overlay.jobs.Edit(id);
  std::string flags = SmallerSearch(overlay, job, now).Run();
  overlay.asides.jobs.erase(id);
  overlay.asides.others.erase(id);
  return !flags.empty() && StartOf(overlay, job, now).has_value() ? flags : "";
}

// Keeps only what people read.
v1::Attempt ForPeople(v1::Attempt attempt) {
  for (v1::NodePart& part : *attempt.mutable_parts()) {
    part.clear_incarnation();
    part.clear_boot_id();
  }
  return attempt;
}

}  // namespace

SchedulingState ShareForPlans(const SchedulingState& state) {
  // A new member breaks this line, as a reminder to copy it below.
  const auto& [settings, next_job_id, jobs, timers, nodes, silent_nodes, lost_nodes, kinds, queue,
               lines, left_out, told, asides, active, projects, usage, earlier_runs,
               schedule_needed, all_looked_at_mono_ms, look_again_mono_ms] = state;
  SchedulingState shared{.settings = settings,
                         .next_job_id = next_job_id,
                         .nodes = nodes,
                         .silent_nodes = silent_nodes,
                         .lost_nodes = lost_nodes,
                         .kinds = kinds,
                         .asides = asides,
                         .active = active,
                         .projects = projects,
                         .usage = usage,
                         .earlier_runs = earlier_runs,
                         .schedule_needed = schedule_needed,
                         .all_looked_at_mono_ms = all_looked_at_mono_ms,
                         .look_again_mono_ms = look_again_mono_ms};
  const auto share = [&](uint64_t id) {
    shared.jobs.Share(id, state.jobs);
    if (const auto at = state.timers.find(id); at != state.timers.end()) shared.timers.insert(*at);
  };
  for (const uint64_t id : active) share(id);
  for (const QueuePlace& queued : queue) {
    if (shared.queue.size() == kQueuedMax) break;
    share(queued.job);
    Enqueue(shared, shared.jobs.at(queued.job));
  }
  shared.left_out = queue.size() - shared.queue.size();
  for (const uint64_t id : told) {
    if (shared.jobs.contains(id)) shared.told.insert(shared.told.end(), id);
  }
  return shared;
}

absl::StatusOr<v1::PlanJobResponse> PlanSubmit(SchedulingState overlay, const SubmitInput& input,
                                               Now now) {
  RETURN_IF_ERROR(job::Validate(input.request.spec()));
  v1::PlanJobResponse response;
  const uint64_t id = overlay.next_job_id;
  const v1::JobRecord& newcomer = overlay.jobs.Add(id) = SubmittedRecord(overlay, input, now);
  overlay.timers[id].state_since_mono_ms = now.mono_ms;
  const std::optional<Blocker> never = WhyNever(overlay, newcomer, now);
  const QueuePlace place = PlaceOf(newcomer);
  const bool is_cut = overlay.queue.size() == kQueuedMax && !(place < *overlay.queue.rbegin());
  Enqueue(overlay, newcomer);
  if (never.has_value()) {
    response.set_outcome(v1::PLAN_OUTCOME_NEVER);
    response.set_reason(never->text);
  } else {
    if (std::optional<v1::Attempt> start = StartOf(overlay, newcomer, now, &response)) {
      response.set_outcome(v1::PLAN_OUTCOME_NOW);
      *response.mutable_attempt() = ForPeople(*std::move(start));
      return response;
    }
    response.set_outcome(v1::PLAN_OUTCOME_LATER);
    const std::map<uint64_t, v1::StartTimes> starts = ForeseeStarts(overlay, now);
    if (const auto at = starts.find(id); at != starts.end())
      *response.mutable_starts() = at->second;
    if (is_cut) {
      response.add_details(absl::StrCat("only the first ", kQueuedMax, " jobs ahead are counted"));
    }
  }
  response.set_smaller(SmallerThatStarts(overlay, id, now));
  return response;
}

}  // namespace muster::coordinator
