#include "coordinator/core/plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/shape.h"
#include "common/job/validate.h"
#include "common/status.h"
#include "coordinator/core/fit.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/core/views.h"
#include "coordinator/core/waiting.h"

namespace muster::coordinator {
namespace {

// Bounds the cost of the copy. A scheduling pass looks at fewer jobs than this.
constexpr size_t kQueuedMax = 10'000;

// What placement reads of a job; environments can be large.
v1::JobRecord WithoutBulk(const v1::JobRecord& job) {
  v1::JobRecord copy;
  copy.set_id(job.id());
  copy.set_name(job.name());
  copy.set_state(job.state());
  copy.set_cancel_requested(job.cancel_requested());
  copy.mutable_spec()->set_priority(job.spec().priority());
  CopyDemand(job.spec(), copy.mutable_spec());
  if (!job.attempts().empty()) *copy.add_attempts() = *job.attempts().rbegin();
  return copy;
}

v1::JobRecord Newcomer(const ClusterState& state, const v1::JobSpec& spec, Now now) {
  v1::JobRecord job;
  job.set_id(state.next_job_id);
  job.set_name(JobName(state.next_job_id, spec.name()));
  job.set_state(v1::JOB_STATE_QUEUED);
  job.set_submitted_ms(now.wall_ms);
  job.set_state_ms(now.wall_ms);
  job.mutable_spec()->set_priority(spec.priority());
  CopyDemand(spec, job.mutable_spec());
  return job;
}

// The attempt with which the scheduler would start the job in its next pass.
std::optional<v1::Attempt> StartOf(ClusterState& state, uint64_t job, Now now) {
  for (v1::Event& event : Schedule(state, now)) {
    if (event.job() == job && event.has_attempt_started())
      return std::move(*event.mutable_attempt_started()->mutable_attempt());
  }
  return std::nullopt;
}

bool FitsNow(const ClusterState& state, const Demand& demand) {
  const std::string kind = ResolveKind(state, demand.shape.device());
  return Fit(state, UsageOf(state), demand, kind, Which::kFreeNow, {}).has_value();
}

Demand WithShape(Demand demand, v1::Shape shape) {
  demand.shape = std::move(shape);
  return demand;
}

// The largest value in [1, most] for which `with` makes a shape that fits now; 0 if none does. More
// never fits where less does not.
template <typename With>
uint32_t Largest(const ClusterState& state, const Demand& demand, uint32_t most, With with) {
  uint32_t fits = 0, too_many = most + 1;
  while (fits + 1 < too_many) {
    const uint32_t middle = fits + (too_many - fits) / 2;
    (FitsNow(state, WithShape(demand, with(middle))) ? fits : too_many) = middle;
  }
  return fits;
}

v1::Shape OnNodes(v1::Shape shape, uint32_t nodes) {
  shape.set_min_nodes(nodes);
  shape.set_max_nodes(nodes);
  return shape;
}

struct Smaller {
  v1::Shape shape;
  std::string flags;  // "-n 3"
};

std::optional<Smaller> LargestThatFits(const ClusterState& state, const Demand& demand) {
  const v1::Shape& wanted = demand.shape;
  if (wanted.per_node() == 0) {
    const auto with = [&](uint32_t processes) {
      v1::Shape shape = wanted;
      shape.set_processes(processes);
      return shape;
    };
    const uint32_t least = std::max<uint32_t>(1, wanted.min_nodes());
    if (!FitsNow(state, WithShape(demand, with(least)))) return std::nullopt;
    // Below one rank per node nothing fits, so the search starts there.
    const uint32_t more = Largest(state, demand, wanted.processes() - least,
                                  [&](uint32_t extra) { return with(least + extra); });
    return Smaller{with(least + more), absl::StrCat("-n ", least + more)};
  }
  const auto on = [&](uint32_t nodes) { return OnNodes(wanted, nodes); };
  if (const uint32_t nodes = Largest(state, demand, std::max<uint32_t>(1, wanted.min_nodes()), on);
      nodes > 0) {
    return Smaller{on(nodes), absl::StrCat("--set resources.nodes=", nodes)};
  }
  const auto per_node = [&](uint32_t ranks) {
    v1::Shape shape = OnNodes(wanted, 1);
    shape.set_per_node(ranks);
    return shape;
  };
  const uint32_t ranks = Largest(state, demand, wanted.per_node(), per_node);
  if (ranks == 0) return std::nullopt;
  return Smaller{per_node(ranks),
                 absl::StrCat("--set resources.nodes=1 --set resources.per_node=", ranks)};
}

// Flags of a smaller job that would start now; empty if jobs ahead would not let it.
std::string SmallerThatStarts(ClusterState& copy, uint64_t job, Now now) {
  const std::optional<Smaller> smaller = LargestThatFits(copy, DemandOf(copy.jobs.at(job).spec()));
  if (!smaller.has_value()) return "";
  *copy.jobs.at(job).mutable_spec()->mutable_shape() = smaller->shape;
  copy.asides.jobs.erase(job);
  return StartOf(copy, job, now).has_value() ? smaller->flags : "";
}

// Only what a person reads.
v1::Attempt ForPeople(v1::Attempt attempt) {
  for (v1::NodePart& part : *attempt.mutable_parts()) {
    part.clear_incarnation();
    part.clear_boot_id();
  }
  return attempt;
}

}  // namespace

ClusterState CopyForPlans(const ClusterState& state) {
  ClusterState copy;
  copy.settings = state.settings;
  copy.next_job_id = state.next_job_id;
  copy.nodes = state.nodes;
  copy.silent_nodes = state.silent_nodes;
  copy.lost_nodes = state.lost_nodes;
  copy.active = state.active;
  copy.asides = state.asides;
  for (const uint64_t id : state.active) copy.jobs[id] = WithoutBulk(state.jobs.at(id));
  for (const QueuePlace& queued : state.queue) {
    if (copy.queue.size() == kQueuedMax) break;
    copy.queue.insert(copy.queue.end(), queued);
    copy.jobs[queued.job] = WithoutBulk(state.jobs.at(queued.job));
  }
  return copy;
}

absl::StatusOr<v1::PlanJobResponse> PlanSpec(ClusterState copy, const v1::JobSpec& spec, Now now) {
  RETURN_IF_ERROR(job::Validate(spec));
  v1::PlanJobResponse response;
  if (const std::string never = NeverFits(copy, DemandOf(spec)); !never.empty()) {
    const std::string kind = ResolveKind(copy, spec.shape().device());
    response.set_outcome(v1::PLAN_OUTCOME_NEVER);
    response.set_reason(
        absl::StrCat("needs ", job::DescribeDemand(spec.shape(), kind), "; ", never));
  }
  const v1::JobRecord newcomer = Newcomer(copy, spec, now);
  const QueuePlace place{newcomer.spec().priority(), newcomer.id()};
  const bool is_cut = copy.queue.size() == kQueuedMax && !(place < *copy.queue.rbegin());
  copy.queue.insert(place);
  copy.jobs[newcomer.id()] = newcomer;
  if (response.outcome() != v1::PLAN_OUTCOME_NEVER) {
    if (std::optional<v1::Attempt> start = StartOf(copy, newcomer.id(), now)) {
      response.set_outcome(v1::PLAN_OUTCOME_NOW);
      *response.mutable_attempt() = ForPeople(*std::move(start));
      return response;
    }
    response.set_outcome(v1::PLAN_OUTCOME_LATER);
    response.set_reason(WhyQueued(copy, newcomer, response.mutable_details()));
    if (is_cut) {
      response.add_details(absl::StrCat("only the first ", kQueuedMax, " jobs ahead are counted"));
    }
  }
  response.set_smaller(SmallerThatStarts(copy, newcomer.id(), now));
  return response;
}

}  // namespace muster::coordinator
