#include "coordinator/core/why.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/text/units.h"
#include "coordinator/core/outcome/settle.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

// The blocker that a person reads first: the one that lasts, because the job cannot start while it
// does, even without the others.
const Blocker& Foremost(const std::vector<Blocker>& blockers) {
  const auto lasting = std::find_if(blockers.begin(), blockers.end(), [](const Blocker& each) {
    return RowOf(each.reason).others_pass;
  });
  return lasting == blockers.end() ? blockers.front() : *lasting;
}

// `free`: only its place in the queue keeps the job back.
std::string WhyBehind(Pass& pass, const SchedulingState& state, const v1::JobRecord& job, bool free,
                      Details* details) {
  const v1::JobRecord& head = *pass.Head();
  const std::vector<Blocker> of_head = pass.Judge(head).blockers;
  details->Add(absl::StrCat("at the head: ", head.name(), ": ",
                            of_head.empty() ? head.reason() : Foremost(of_head).text));
  const auto first = state.queue.begin();
  const auto place = state.queue.find(PlaceOf(job));
  const auto between = std::distance(state.queue.find(PlaceOf(head)), place) - 1;
  return absl::StrCat("number ", std::distance(first, place) + 1, " in the queue; it waits behind ",
                      head.name(), between > 0 ? absl::StrCat(" and ", between, " more") : "",
                      free ? ", although its own devices are free (strict order)" : "");
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

std::string WhyQueued(Pass& pass, const SchedulingState& state, const v1::JobRecord& job,
                      Details* details) {
  if (job.held()) return job.reason();
  const std::vector<Blocker> blockers = pass.Judge(job).blockers;
  if (blockers.empty()) return "it starts now";
  const Blocker& foremost = Foremost(blockers);
  if (RowOf(foremost.reason).others_pass) {
    details->Add("jobs behind it may start meanwhile; it keeps its place in the queue");
  }
  std::string text = foremost.reason == Reason::kBehindOthers
                         ? WhyBehind(pass, state, job, blockers.size() == 1, details)
                         : foremost.text;
  for (const Blocker& other : blockers) {
    if (&other == &foremost || other.reason == Reason::kBehindOthers) continue;
    details->Add(absl::StrCat("itself ", other.text));
  }
  return text;
}

v1::WhyResponse Why(const ClusterState& state, const v1::JobRecord& job, Now now) {
  v1::WhyResponse response;
  response.set_state(job.state());
  const std::string name = StateName(job.state());
  const std::string since = common::HumanDuration(now.wall_ms - job.state_ms());
  switch (job.state()) {
    case v1::JOB_STATE_QUEUED: {
      Asides found;
      Pass pass(state, found, now);
      pass.Run();
      response.set_text(absl::StrCat(name, " ", since, ": ",
                                     WhyQueued(pass, state, job, response.mutable_details())));
      if (MostNodesSilent(state)) response.add_details(ClusterAlarm(state));
      break;
    }
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
