#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "coordinator/core/settle.h"
#include "coordinator/core/timers.h"
#include "coordinator/core/views.h"
#include "coordinator/core/waiting.h"

namespace muster::coordinator {
namespace {

// The first job that others wait for, and how many before it step aside. Null: all of them do.
std::pair<const v1::JobRecord*, size_t> HeadOfQueue(const ClusterState& state) {
  Asides known = {.by_demand = {}, .jobs = state.asides.jobs};
  AsideReasons asides(known);
  for (const QueuePlace& place : state.queue) {
    const v1::JobRecord& job = state.jobs.at(place.job);
    const bool aside = asides.Pass(place.job) || !asides.Of(state, DemandOf(job.spec())).empty();
    if (!aside || asides.IsEnough()) return {&job, aside ? asides.passed() - 1 : asides.passed()};
  }
  return {nullptr, asides.passed()};
}

std::string WhenItCounts(const ClusterState& state, const v1::JobRecord& job,
                         const v1::NodePart& part, Now now) {
  const std::string declare = absl::StrCat("jobctl nodes declare-dead ", part.node());
  if (const auto fenced = FencedAtMonoMs(state, job, part)) {
    return absl::StrCat("; its ranks count as stopped in ",
                        common::HumanDuration(*fenced - now.mono_ms), ", or immediately with ",
                        declare);
  }
  if (job.spec().on_node_loss() == v1::ON_NODE_LOSS_WAIT) {
    return absl::StrCat("; the job waits for it (on_node_loss: wait) or for ", declare);
  }
  return absl::StrCat("; ", ClusterAlarm(state));
}

void AddRunningDetails(const ClusterState& state, const v1::JobRecord& job, Now now,
                       v1::WhyResponse& response) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr) return;
  for (const v1::NodePart& part : attempt->parts()) {
    const Node* node = FindNode(state, part.node());
    if (node == nullptr || part.ended()) continue;
    const bool suspect = node->record.state() != v1::NODE_STATE_ALIVE;
    if (node->record.connected() && !suspect) continue;
    response.add_details(
        absl::StrCat(part.node(), suspect ? " is " : " is not connected",
                     suspect ? NodeStateName(node->record.state()) : "", ", last heard ",
                     common::HumanDuration(now.mono_ms - node->last_contact_mono_ms), " ago",
                     WhenItCounts(state, job, part, now)));
  }
  for (const v1::NodePart& part : attempt->parts()) {
    if (!part.launched() && !part.ended()) {
      const std::string& doing = part.preparation().doing();
      response.add_details(doing.empty()
                               ? absl::StrCat(part.node(), " has not started its ranks yet")
                               : absl::StrCat(part.node(), ": ", doing));
    } else if (attempt->stopping() && !part.ended()) {
      response.add_details(absl::StrCat(part.node(), " still has processes of it"));
    }
  }
}

}  // namespace

std::string WhyQueued(const ClusterState& state, const v1::JobRecord& job, Details* details) {
  if (job.held()) return job.reason();
  if (std::string aside = WhyAside(state, DemandOf(job.spec())); !aside.empty()) {
    details->Add("jobs behind it may start meanwhile; it keeps its place in the queue");
    return aside;
  }
  const QueuePlace place{job.spec().priority(), job.id()};
  const auto found = state.queue.find(place);
  const auto ahead = static_cast<size_t>(std::distance(state.queue.begin(), found));
  const std::string blocked = BlockedReason(state, job);
  const auto [head, aside] = HeadOfQueue(state);
  if (head == nullptr || head->id() == job.id()) return blocked.empty() ? "it starts now" : blocked;
  details->Add(absl::StrCat("at the head: ", head->name(), ": ", BlockedReason(state, *head)));
  if (!blocked.empty()) details->Add(absl::StrCat("itself ", blocked));
  return absl::StrCat("number ", ahead + 1, " in the queue; it waits behind ", head->name(),
                      ahead > aside + 1 ? absl::StrCat(" and ", ahead - aside - 1, " more") : "",
                      blocked.empty() ? ", although its own devices are free (strict order)" : "");
}

v1::WhyResponse Why(const ClusterState& state, const v1::JobRecord& job, Now now) {
  v1::WhyResponse response;
  response.set_state(job.state());
  const std::string name = StateName(job.state());
  const std::string since = common::HumanDuration(now.wall_ms - job.state_ms());
  switch (job.state()) {
    case v1::JOB_STATE_QUEUED:
      response.set_text(
          absl::StrCat(name, " ", since, ": ", WhyQueued(state, job, response.mutable_details())));
      if (MostNodesSilent(state)) response.add_details(ClusterAlarm(state));
      break;
    case v1::JOB_STATE_SUCCEEDED:
    case v1::JOB_STATE_FAILED:
    case v1::JOB_STATE_CANCELLED:
      response.set_text(absl::StrCat(name, ": ", job.reason()));
      break;
    default:
      response.set_text(absl::StrCat(name, " ", since, ": ", ReasonForPeople(job)));
      AddRunningDetails(state, job, now, response);
      break;
  }
  return response;
}

}  // namespace muster::coordinator
