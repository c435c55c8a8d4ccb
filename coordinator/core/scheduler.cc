#include "coordinator/core/scheduler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/placement.h"

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
  attempt.set_master_addr(attempt.parts(0).advertise());
  return attempt;
}

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

// Whether all of them share one host, and with it the loopback device. A container on it has a host
// name of its own.
bool OnOneHost(const ClusterState& state, const std::vector<Capacity>& capacities) {
  const v1::NodeFacts& first = state.nodes.at(capacities[0].node).record.facts();
  return !first.hostname().empty() &&
         std::all_of(capacities.begin(), capacities.end(), [&](const Capacity& capacity) {
           const v1::NodeFacts& facts = state.nodes.at(capacity.node).record.facts();
           return facts.hostname() == first.hostname() && facts.boot_id() == first.boot_id();
         });
}

// A gang that spans hosts cannot meet at a loopback address.
void DropLoopbackWhenSpanning(const ClusterState& state, const v1::Shape& shape,
                              std::vector<Capacity>& capacities) {
  if (capacities.size() < 2 || OnOneHost(state, capacities)) return;
  if (Place(shape, capacities, {}).value_or(std::vector<Share>{}).size() < 2) return;
  std::erase_if(capacities, [&](const Capacity& capacity) {
    return IsLoopback(state.nodes.at(capacity.node).record.facts().advertise());
  });
}

std::optional<std::vector<Share>> Fit(const ClusterState& state, const Usage& usage,
                                      const v1::JobRecord& job, const std::string& kind) {
  const v1::Shape& shape = job.spec().shape();
  std::vector<Capacity> capacities =
      Capacities(state, usage, shape.device(), kind, Which::kFreeNow);
  DropLoopbackWhenSpanning(state, shape, capacities);
  return Place(shape, std::move(capacities), PreviousNodes(job));
}

// " (node-b drains, node-c is not connected)": nodes that a placement passes over.
std::string DescribeUnusable(const ClusterState& state) {
  constexpr size_t kNodesNamed = 5;
  std::vector<std::string> nodes;
  for (const auto& [name, node] : state.nodes) {
    if (nodes.size() == kNodesNamed) break;
    if (node.record.draining()) {
      const std::string& why = node.record.drain_reason();
      nodes.push_back(absl::StrCat(name, " drains", why.empty() ? "" : ": ", why));
    } else if (!node.record.connected()) {
      nodes.push_back(absl::StrCat(name, " is not connected"));
    } else if (!node.cleared) {
      nodes.push_back(absl::StrCat(name, " is being cleared of older ranks"));
    }
  }
  return nodes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(nodes, ", "), ")");
}

std::string Blocked(const ClusterState& state, const Usage& usage, const v1::JobRecord& job,
                    const std::string& kind) {
  const v1::Shape& shape = job.spec().shape();
  const std::string needs = absl::StrCat("needs ", DescribeShape(shape, kind));
  if (state.nodes.empty()) return absl::StrCat(needs, "; no node is registered yet");
  std::vector<Capacity> free = Capacities(state, usage, shape.device(), kind, Which::kFreeNow);
  const bool fits_but_for_loopback = Place(shape, free, {}).has_value();
  std::string text =
      absl::StrCat(needs, "; free now: ", DescribeCapacities(free), DescribeUnusable(state));
  if (fits_but_for_loopback) {
    absl::StrAppend(&text,
                    ", but a job over several nodes needs addresses that others reach: start those "
                    "workers with --advertise ADDR");
  }
  if (const std::string never = NeverFits(state, shape); !never.empty()) {
    absl::StrAppend(&text, "; ", never);
  }
  return text;
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
  std::string text =
      absl::StrCat(attempt.world_size(), attempt.world_size() == 1 ? " rank" : " ranks", " on ",
                   attempt.parts_size(), attempt.parts_size() == 1 ? " node" : " nodes");
  if (attempt.resume_step() >= 0) {
    absl::StrAppend(&text, ", from the checkpoint of step ", attempt.resume_step());
  }
  return text;
}

}  // namespace

std::vector<v1::Event> Schedule(const ClusterState& state, Now now) {
  std::vector<v1::Event> events;
  // 1. What live attempts hold.
  Usage usage = UsageOf(state);
  // 2. The queue in its order, until the first that does not fit.
  for (const QueuePlace& place : state.queue) {
    const v1::JobRecord& job = state.jobs.at(place.job);
    if (job.cancel_requested()) continue;
    // 3. All of the gang, or nothing of it.
    const std::string kind = ResolveKind(state, job.spec().shape().device());
    const std::optional<std::vector<Share>> shares = Fit(state, usage, job, kind);
    if (!shares.has_value()) {
      // 4. The head blocks; its reason is kept.
      const std::string reason = Blocked(state, usage, job, kind);
      if (reason != job.reason()) {
        v1::Event event;
        event.set_job(job.id());
        event.set_at_ms(now.wall_ms);
        event.mutable_reason_changed()->set_reason(reason);
        events.push_back(std::move(event));
      }
      break;
    }
    // 5. The attempt exists from here on, and so do its devices' users.
    v1::Event started;
    started.set_job(job.id());
    started.set_attempt(job.next_attempt());
    started.set_at_ms(now.wall_ms);
    *started.mutable_attempt_started()->mutable_attempt() =
        MakeAttempt(state, job, *shares, kind, now);
    AddUsage(usage, started.attempt_started().attempt());
    const std::string reason = StartingReason(started.attempt_started().attempt());
    events.push_back(std::move(started));
    events.push_back(StateChange(job, v1::JOB_STATE_STARTING, reason, now));
  }
  return events;
}

std::optional<v1::Attempt> PlanAttempt(const ClusterState& state, const v1::JobRecord& job,
                                       Now now) {
  const std::string kind = ResolveKind(state, job.spec().shape().device());
  const auto shares = Fit(state, UsageOf(state), job, kind);
  if (!shares.has_value()) return std::nullopt;
  return MakeAttempt(state, job, *shares, kind, now);
}

std::string BlockedReason(const ClusterState& state, const v1::JobRecord& job) {
  const Usage usage = UsageOf(state);
  const std::string kind = ResolveKind(state, job.spec().shape().device());
  if (Fit(state, usage, job, kind).has_value()) return "";
  return Blocked(state, usage, job, kind);
}

std::string NeverFits(const ClusterState& state, const v1::Shape& shape) {
  if (state.nodes.empty()) return "";
  const std::string kind = ResolveKind(state, shape.device());
  const std::vector<Capacity> ever = Capacities(state, {}, shape.device(), kind, Which::kEver);
  if (Place(shape, ever, {}).has_value()) return "";
  return absl::StrCat("no set of the registered nodes could ever hold it; ranks that they hold: ",
                      DescribeCapacities(ever));
}

}  // namespace muster::coordinator
