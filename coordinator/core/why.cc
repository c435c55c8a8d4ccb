#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/core/settle.h"
#include "coordinator/core/views.h"

namespace muster::coordinator {
namespace {

std::string WhyQueued(const ClusterState& state, const v1::JobRecord& job,
                      v1::WhyResponse& response) {
  if (job.held()) return job.reason();
  const QueuePlace place{job.spec().priority(), job.id()};
  const auto found = state.queue.find(place);
  const auto ahead = std::distance(state.queue.begin(), found);
  const std::string blocked = BlockedReason(state, job);
  if (ahead == 0) return blocked.empty() ? "it starts now" : blocked;
  const v1::JobRecord& head = state.jobs.at(state.queue.begin()->job);
  response.add_details(
      absl::StrCat("at the head: ", head.name(), ": ", BlockedReason(state, head)));
  if (!blocked.empty()) response.add_details(absl::StrCat("itself ", blocked));
  return absl::StrCat("number ", ahead + 1, " in the queue; it waits behind ", head.name(),
                      ahead > 1 ? absl::StrCat(" and ", ahead - 1, " more") : "",
                      blocked.empty() ? ", though its own devices are free (strict order)" : "");
}

std::string WhenItCounts(const ClusterState& state, const v1::JobRecord& job,
                         const v1::NodePart& part, Now now) {
  const std::string declare = absl::StrCat("jobctl nodes declare-dead ", part.node());
  if (const auto fenced = FencedAtMonoMs(state, job, part)) {
    return absl::StrCat("; its ranks count as stopped in ",
                        common::HumanDuration(*fenced - now.mono_ms), ", or at once with ",
                        declare);
  }
  if (job.spec().on_node_loss() == v1::ON_NODE_LOSS_WAIT) {
    return absl::StrCat("; the job waits for it (on_node_loss: wait), or for ", declare);
  }
  return absl::StrCat("; ", ClusterAlarm(state));
}

void AddRunningDetails(const ClusterState& state, const v1::JobRecord& job, Now now,
                       v1::WhyResponse& response) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr) return;
  for (const v1::NodePart& part : attempt->parts()) {
    const Node* node = FindNode(state, part.node());
    if (node == nullptr || part.ended() || node->record.connected()) continue;
    response.add_details(
        absl::StrCat(part.node(), " is not connected, last heard ",
                     common::HumanDuration(now.mono_ms - node->last_contact_mono_ms), " ago",
                     WhenItCounts(state, job, part, now)));
  }
  for (const v1::NodePart& part : attempt->parts()) {
    if (!part.launched() && !part.ended()) {
      response.add_details(absl::StrCat(part.node(), " has not started its ranks yet"));
    } else if (attempt->stopping() && !part.ended()) {
      response.add_details(absl::StrCat(part.node(), " still has processes of it"));
    }
  }
}

}  // namespace

v1::WhyResponse Why(const ClusterState& state, const v1::JobRecord& job, Now now) {
  v1::WhyResponse response;
  response.set_state(job.state());
  const std::string name = StateName(job.state());
  const std::string since = common::HumanDuration(now.wall_ms - job.state_ms());
  switch (job.state()) {
    case v1::JOB_STATE_QUEUED:
      response.set_text(absl::StrCat(name, " ", since, ": ", WhyQueued(state, job, response)));
      if (MostNodesSilent(state)) response.add_details(ClusterAlarm(state));
      break;
    case v1::JOB_STATE_SUCCEEDED:
    case v1::JOB_STATE_FAILED:
    case v1::JOB_STATE_CANCELLED:
      response.set_text(absl::StrCat(name, ": ", job.reason()));
      break;
    default:
      response.set_text(absl::StrCat(name, " ", since, ": ", job.reason()));
      AddRunningDetails(state, job, now, response);
      break;
  }
  return response;
}

}  // namespace muster::coordinator
