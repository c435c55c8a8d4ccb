#include "coordinator/core/state/timers.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

void Sooner(std::optional<int64_t>& deadline, const std::optional<int64_t>& candidate) {
  if (!candidate.has_value()) return;
  if (!deadline.has_value() || *candidate < *deadline) deadline = candidate;
}

}  // namespace

std::optional<int64_t> SilentAtMonoMs(const ClusterState& state, const Node& node) {
  if (node.record.state() == v1::NODE_STATE_ALIVE) {
    return node.last_contact_mono_ms + state.settings.suspect_after_ms;
  }
  if (node.record.state() == v1::NODE_STATE_SUSPECT && !MostNodesSilent(state)) {
    return node.last_contact_mono_ms + state.settings.default_stop_after_ms +
           state.settings.default_grace_ms + state.settings.fence_margin_ms;
  }
  return std::nullopt;
}

std::optional<int64_t> RestartAtMonoMs(const ClusterState& state, const v1::JobRecord& job) {
  if (job.state() != v1::JOB_STATE_RESTARTING) return std::nullopt;
  return state.timers.at(job.id()).state_since_mono_ms + job.backoff_ms();
}

std::optional<int64_t> TimeLimitAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                         const v1::Attempt& attempt) {
  const auto limit = static_cast<int64_t>(job.spec().max_duration_ms());
  if (limit == 0 || attempt.stopping()) return std::nullopt;
  const JobTimers& timers = state.timers.at(job.id());
  const int64_t left = limit - job.ran_ms();
  if (attempt.running_ms() > 0) return timers.running_since_mono_ms + std::max<int64_t>(left, 0);
  if (left > 0) return std::nullopt;  // not running yet
  return timers.attempt_since_mono_ms;
}

std::optional<int64_t> LaunchLateAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                          const v1::Attempt& attempt) {
  if (attempt.stopping() || CountsOf(state, job).awaited == 0) return std::nullopt;
  const JobTimers& timers = state.timers.at(job.id());
  return std::max(timers.attempt_since_mono_ms, timers.prepared_mono_ms) +
         state.settings.start_timeout_ms;
}

const v1::NodePart* UnlaunchedPart(const v1::Attempt& attempt) {
  const v1::NodePart* first = nullptr;
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.launched() || part.ended()) continue;
    if (!part.ready()) return &part;
    if (first == nullptr) first = &part;
  }
  return first;
}

std::optional<int64_t> FencedAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                      const v1::NodePart& part) {
  if (part.ended() || job.spec().on_node_loss() == v1::ON_NODE_LOSS_WAIT ||
      MostNodesSilent(state)) {
    return std::nullopt;
  }
  const auto node = state.nodes.find(part.node());
  if (node == state.nodes.end()) return std::nullopt;
  return node->second.last_contact_mono_ms + StopAfterMsOf(state, job.spec()) +
         GraceMsOf(state, job.spec()) + state.settings.fence_margin_ms;
}

std::optional<int64_t> NoticeEndsAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                          const v1::Attempt& attempt) {
  if (attempt.stopping() || !attempt.has_notice()) return std::nullopt;
  std::optional<int64_t> ends = AskedEndsAtMonoMs(state, job, attempt);
  if (ClaimStands(state, attempt))
    Sooner(ends, state.timers.at(job.id()).noticed_mono_ms + attempt.notice().period_ms());
  return ends;
}

std::optional<int64_t> AskedEndsAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                         const v1::Attempt& attempt) {
  if (attempt.stopping() || !IsAskedByPerson(attempt)) return std::nullopt;
  return state.timers.at(job.id()).asked_mono_ms + attempt.notice().asked().period_ms();
}

std::optional<int64_t> LookAgainAtMonoMs(const ClusterState& state) {
  if (state.look_again_mono_ms == 0) return std::nullopt;
  return state.look_again_mono_ms;
}

std::optional<int64_t> JobDueMonoMs(const ClusterState& state, const v1::JobRecord& job) {
  std::optional<int64_t> due = RestartAtMonoMs(state, job);
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr) return due;
  Sooner(due, TimeLimitAtMonoMs(state, job, *attempt));
  Sooner(due, NoticeEndsAtMonoMs(state, job, *attempt));
  Sooner(due, LaunchLateAtMonoMs(state, job, *attempt));
  return due;
}

std::optional<int64_t> NodeDueMonoMs(const ClusterState& state, const Node& node) {
  std::optional<int64_t> due = SilentAtMonoMs(state, node);
  ForEachLivePart(state, node.record.facts().name(),
                  [&](const auto& job, const auto&, const auto& part) {
                    Sooner(due, FencedAtMonoMs(state, job, part));
                  });
  return due;
}

void SetJobDue(ClusterState& state, uint64_t job) {
  const auto found = state.jobs.find(job);
  state.due_jobs.Set(job,
                     found == state.jobs.end() ? std::nullopt : JobDueMonoMs(state, found->second));
}

void SetNodeDue(ClusterState& state, const std::string& node) {
  const Node* found = FindNode(state, node);
  state.due_nodes.Set(node, found == nullptr ? std::nullopt : NodeDueMonoMs(state, *found));
}

std::optional<int64_t> NextDeadlineMonoMs(const ClusterState& state) {
  if (!state.unsettled.empty() || state.schedule_needed) return 0;  // long past
  std::optional<int64_t> deadline;
  Sooner(deadline, LookAgainAtMonoMs(state));
  Sooner(deadline, state.due_jobs.Earliest());
  Sooner(deadline, state.due_nodes.Earliest());
  return deadline;
}

}  // namespace muster::coordinator
