#include "coordinator/core/scheduler.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "coordinator/core/fit.h"
#include "coordinator/core/placement.h"
#include "coordinator/core/rendezvous.h"
#include "coordinator/core/waiting.h"

namespace muster::coordinator {
namespace {

std::vector<std::string> PreviousNodes(const v1::JobRecord& job) {
  std::vector<std::string> nodes;
  if (job.attempts().empty()) return nodes;
  for (const v1::NodePart& part : job.attempts().rbegin()->parts()) nodes.push_back(part.node());
  return nodes;
}

v1::NodePart MakePart(const ClusterState& state, const Share& share, const std::string& kind,
                      uint32_t group_rank, uint32_t first_rank) {
  const v1::NodeFacts& facts = state.nodes.at(share.node).record.facts();
  v1::NodePart part;
  part.set_node(share.node);
  part.set_incarnation(facts.incarnation());
  part.set_boot_id(facts.boot_id());
  part.set_advertise(facts.advertise());
  part.set_group_rank(group_rank);
  part.set_first_rank(first_rank);
  part.set_local_world_size(share.ranks);
  part.set_device_kind(kind);
  for (const uint32_t device : share.devices) part.add_device_indexes(device);
  return part;
}

v1::Attempt MakeAttempt(const ClusterState& state, const v1::JobRecord& job,
                        const std::vector<Share>& shares, const std::string& kind, Now now) {
  v1::Attempt attempt;
  attempt.set_number(job.next_attempt());
  attempt.set_started_ms(now.wall_ms);
  attempt.set_resume_step(-1);
  if (const v1::Checkpoint* latest = LatestCheckpoint(job); latest != nullptr) {
    attempt.set_resume_step(latest->step());
  }
  uint32_t first_rank = 0;
  for (const Share& share : shares) {
    *attempt.add_parts() = MakePart(state, share, kind, attempt.parts_size(), first_rank);
    first_rank += share.ranks;
  }
  attempt.set_world_size(first_rank);
  PlaceRendezvous(&attempt);
  return attempt;
}

v1::Event StateChange(const v1::JobRecord& job, v1::JobState to, const std::string& reason,
                      Now now) {
  v1::Event event;
  event.set_job(job.id());
  event.set_at_ms(now.wall_ms);
  event.mutable_job_state_changed()->set_from(job.state());
  event.mutable_job_state_changed()->set_to(to);
  event.mutable_job_state_changed()->set_reason(reason);
  return event;
}

std::string StartingReason(const v1::Attempt& attempt) {
  std::string text = absl::StrCat(common::Counted(attempt.world_size(), "rank"), " on ",
                                  common::Counted(attempt.parts_size(), "node"));
  if (attempt.resume_step() >= 0) {
    absl::StrAppend(&text, ", from the checkpoint of step ", attempt.resume_step());
  }
  return text;
}

void KeepReason(const v1::JobRecord& job, const std::string& reason, Now now,
                std::vector<v1::Event>& events) {
  if (reason == job.reason()) return;
  v1::Event event;
  event.set_job(job.id());
  event.set_at_ms(now.wall_ms);
  event.mutable_reason_changed()->set_reason(reason);
  events.push_back(std::move(event));
}

// The attempt exists from here on, and holds its devices.
void Start(const v1::JobRecord& job, v1::Attempt attempt, Now now, Usage& usage,
           std::vector<v1::Event>& events) {
  AddUsage(usage, attempt);
  const std::string reason = StartingReason(attempt);
  v1::Event started;
  started.set_job(job.id());
  started.set_attempt(job.next_attempt());
  started.set_at_ms(now.wall_ms);
  *started.mutable_attempt_started()->mutable_attempt() = std::move(attempt);
  events.push_back(std::move(started));
  events.push_back(StateChange(job, v1::JOB_STATE_STARTING, reason, now));
}

}  // namespace

std::vector<v1::Event> Schedule(ClusterState& state, Now now) {
  std::vector<v1::Event> events;
  const bool any_in_service =
      std::any_of(state.nodes.begin(), state.nodes.end(),
                  [](const auto& named) { return IsInService(named.second); });
  AsideReasons asides(state.asides);
  // 1. What live attempts hold.
  Usage usage = UsageOf(state);
  // 2. The queue in order, up to the first job that keeps its place and does not fit.
  std::unordered_set<uint64_t> seen;
  for (const QueuePlace& place : state.queue) {
    seen.insert(place.job);
    const v1::JobRecord& job = state.jobs.at(place.job);
    if (job.cancel_requested()) continue;
    if (any_in_service && asides.Pass(place.job)) {
      if (asides.IsEnough()) break;
      continue;
    }
    const Demand demand = DemandOf(job.spec());
    // 3. The whole gang or nothing.
    std::string kind;  // not looked up again for every job that waits for the same dead node
    if (!asides.IsKnown(demand)) {
      kind = ResolveKind(state, demand.shape.device());
      const auto shares = Fit(state, usage, demand, kind, Which::kFreeNow, PreviousNodes(job));
      if (shares.has_value()) {
        Start(job, MakeAttempt(state, job, *shares, kind, now), now, usage, events);
        continue;
      }
    }
    // 4. The head blocks; a job that only absent nodes could hold lets others pass, if there is any
    // capacity. The reason is kept.
    const std::string& aside = asides.Of(state, demand);
    KeepReason(job, aside.empty() ? Blocked(state, usage, demand, kind) : aside, now, events);
    if (!aside.empty()) asides.Keep(place.job);
    if (aside.empty() || !any_in_service || asides.IsEnough()) break;
  }
  // 5. What jobs further back were told of free devices may be over.
  for (const uint64_t id : state.told) {
    const v1::JobRecord& job = state.jobs.at(id);
    if (seen.contains(id) || job.cancel_requested()) continue;
    const std::string& aside = asides.Of(state, DemandOf(job.spec()));
    KeepReason(job, aside.empty() ? kBehindOthers : aside, now, events);
  }
  return events;
}

std::optional<v1::Attempt> PlanAttempt(const ClusterState& state, const v1::JobRecord& job,
                                       Now now) {
  const std::string kind = ResolveKind(state, job.spec().shape().device());
  const auto shares =
      Fit(state, UsageOf(state), DemandOf(job.spec()), kind, Which::kFreeNow, PreviousNodes(job));
  if (!shares.has_value()) return std::nullopt;
  return MakeAttempt(state, job, *shares, kind, now);
}

}  // namespace muster::coordinator
