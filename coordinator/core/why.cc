#include "coordinator/core/why.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/units.h"
#include "coordinator/core/forecast.h"
#include "coordinator/core/outcome/settle.h"
#include "coordinator/core/scheduling/reclaim.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/views/project_views.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

constexpr size_t kNamed = 3;

// The blocker that a person reads first: the one that lasts, because the job cannot start while it
// does, even without the others.
const Blocker& Foremost(const std::vector<Blocker>& blockers) {
  const auto lasting = std::find_if(blockers.begin(), blockers.end(), [](const Blocker& each) {
    return RowOf(each.reason).others_pass;
  });
  return lasting == blockers.end() ? blockers.front() : *lasting;
}

bool Has(const std::vector<Blocker>& blockers, Reason reason) {
  return std::any_of(blockers.begin(), blockers.end(),
                     [&](const Blocker& each) { return each.reason == reason; });
}

std::string KindOf(const SchedulingState& state, const v1::JobRecord& job) {
  return ResolveKind(state, job.spec().shape().device());
}

// Whole minutes, as far as there are any: "55m".
std::string AsFlag(int64_t ms) {
  return ms >= 60'000 ? absl::StrCat(ms / 60'000, "m") : absl::StrCat(ms / 1'000, "s");
}

std::string In(int64_t mono_ms, Now now) { return common::RoughDuration(mono_ms - now.mono_ms); }

// At most kNamed of them.
void AddNames(std::vector<std::string> names, std::vector<std::string>* to) {
  const size_t more = names.size() - std::min(names.size(), kNamed);
  to->insert(to->end(), names.begin(), names.end() - static_cast<std::ptrdiff_t>(more));
  if (more > 0) to->push_back(absl::StrCat(more, " more"));
}

// "calm-otter-3 (its estimate), swift-heron-4 (no estimate), node5 (cannot be used now)".
std::string DescribeAwaited(const HeldPlace& place) {
  std::vector<std::string> jobs, nodes, all;
  for (const Occupant& occupant : place.awaited) {
    jobs.push_back(absl::StrCat(occupant.job->name(), " (",
                                occupant.end.overstays ? "longer than " : "",
                                NameOf(occupant.end.source), ")"));
  }
  for (const std::string& node : place.awaited_nodes)
    nodes.push_back(absl::StrCat(node, " (cannot be used now)"));
  AddNames(std::move(jobs), &all);
  AddNames(std::move(nodes), &all);
  return absl::StrJoin(all, ", ");
}

// "expected to start in 40m to 50m, after calm-otter-3 (its estimate)".
std::string DescribeStart(const HeldPlace& place, Now now) {
  const std::string when = !place.from_mono_ms.has_value()
                               ? ""
                               : absl::StrCat(" in ", In(*place.from_mono_ms, now), " to ",
                                              In(*place.until_mono_ms, now), ",");
  return absl::StrCat("expected to start", when, " after ", DescribeAwaited(place));
}

// Its place among the jobs that wait, and with quotas among those of its project: for the same kind of device.
std::string NumberInLine(const SchedulingState& state, const v1::JobRecord& job) {
  const bool one_queue = !HasQuotas(state.projects);
  const auto line = state.lines.find({ProjectOf(job), job.spec().shape().device().kind()});
  if (!one_queue && line == state.lines.end()) return "it no longer waits";
  const std::set<QueuePlace>& queue = one_queue ? state.queue : line->second;
  const auto ahead = std::distance(queue.begin(), queue.lower_bound(PlaceOf(job)));
  return absl::StrCat("number ", ahead + 1, " in the queue",
                      one_queue ? "" : absl::StrCat(" of project ", ProjectOf(job)));
}

// `free`: only its place in the queue keeps the job back.
std::string WhyBehind(Pass& pass, const SchedulingState& state, const v1::JobRecord& job, bool free,
                      Now now, Details* details) {
  const std::string number = NumberInLine(state, job);
  const HeldPlace* place = pass.PlaceAhead(job);
  if (place == nullptr) return absl::StrCat(number, "; it waits behind jobs that wait, too");
  const v1::JobRecord& head = state.jobs.at(place->holder.job);
  const std::vector<Blocker> of_head = pass.Judge(head).blockers;
  details->Add(absl::StrCat("at the head: ", head.name(), ": ",
                            of_head.empty() ? head.reason() : Foremost(of_head).text, "; ",
                            DescribeStart(*place, now)));
  if (free)
    details->Add(absl::StrCat("held for ", head.name(), ": ", DescribeShares(place->shares)));
  if (const std::optional<int64_t> most_ms = pass.MayStartForMs(job)) {
    details->Add(absl::StrCat("--estimate ", AsFlag(*most_ms),
                              ", or less, would start it now: it would end before ", head.name(),
                              " starts"));
  }
  const bool other_project = HasQuotas(state.projects) && ProjectOf(head) != ProjectOf(job);
  return absl::StrCat(number, "; it waits behind ", head.name(),
                      other_project ? absl::StrCat(" of project ", ProjectOf(head)) : "",
                      free ? ", for which the devices that are free are held" : "");
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

// "its 4 gpu are borrowed: it may be asked to give way in 1h 40m, or in 10m once it has saved"; empty: they are not.
std::string DescribeBorrowing(const SchedulingState& state, const v1::JobRecord& job, Now now) {
  const std::optional<Borrowing> of = BorrowingOf(state, job, now);
  if (!of.has_value() || of->devices == 0) return "";
  const auto when = [](int64_t ms) {
    return ms == 0 ? std::string("now") : absl::StrCat("in ", common::HumanDuration(ms));
  };
  std::string text = absl::StrCat("its ", of->devices, " ", of->kind, " are borrowed: ");
  if (!MayBeAskedToGiveWay(job.spec()))
    return absl::StrCat(text, "it is never asked to give way (preemptible: false)");
  absl::StrAppend(&text, "it may be asked to give way ", when(of->in_ms));
  if (of->once_saved_ms < of->in_ms)
    absl::StrAppend(&text, ", or ", when(of->once_saved_ms), " once it has saved");
  return text;
}

void AddRunningDetails(const ClusterState& state, const v1::JobRecord& job, Now now,
                       v1::WhyResponse& response) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr) return;
  std::string borrowing = attempt->has_notice() ? "" : DescribeBorrowing(state, job, now);
  if (!borrowing.empty()) response.add_details(std::move(borrowing));
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

std::string WhyQueued(Pass& pass, const SchedulingState& state, const v1::JobRecord& job, Now now,
                      Details* details) {
  if (job.held()) return job.reason();
  if (pass.Starts(job.id())) return "it starts when the scheduler looks at the queue again";
  const std::vector<Blocker> blockers = pass.Judge(job).blockers;
  if (blockers.empty()) return "it starts now";
  const Blocker& foremost = Foremost(blockers);
  if (RowOf(foremost.reason).others_pass) {
    details->Add("jobs behind it may start meanwhile; it keeps its place in the queue");
  }
  std::string text = foremost.reason == Reason::kBehindOthers
                         ? WhyBehind(pass, state, job, Has(blockers, Reason::kHeld), now, details)
                         : foremost.text;
  if (const HeldPlace* place = pass.PlaceFor(job)) {
    absl::StrAppend(&text, "; ", DescribeStart(*place, now));
    details->Add(absl::StrCat("held for it: ", DescribeShares(place->shares)));
  }
  for (const Blocker& other : blockers) {
    if (&other == &foremost || other.reason == Reason::kBehindOthers ||
        other.reason == Reason::kHeld) {
      continue;
    }
    details->Add(absl::StrCat("itself ", other.text));
  }
  if (job.gave_way()) *details->Add() = job.attempts().rbegin()->reason();
  std::string use = DescribeProject(state, pass.use(), ProjectOf(job), KindOf(state, job));
  if (!use.empty()) details->Add(std::move(use));
  return text;
}

v1::WhyResponse WhyWaiting(const SchedulingState& state, const v1::JobRecord& job,
                           const StartsByJob& starts, Now now) {
  v1::WhyResponse response;
  response.set_state(job.state());
  Asides found;
  Pass pass(state, found, now);
  pass.Run();
  response.set_text(absl::StrCat(StateName(job.state()), " ",
                                 common::HumanDuration(now.wall_ms - job.state_ms()), ": ",
                                 WhyQueued(pass, state, job, now, response.mutable_details())));
  if (MostNodesSilent(state)) response.add_details(ClusterAlarm(state));
  const HeldPlace* place = pass.PlaceFor(job);
  if (place != nullptr && place->from_mono_ms.has_value()) {
    response.mutable_starts()->set_from_ms(*place->from_mono_ms - now.mono_ms);
    response.mutable_starts()->set_until_ms(*place->until_mono_ms - now.mono_ms);
  } else if (const auto at = starts.find(job.id()); place == nullptr && at != starts.end()) {
    *response.mutable_starts() = at->second;
    response.add_details(DescribeStarts(at->second));
  }
  return response;
}

v1::WhyResponse Why(const ClusterState& state, const v1::JobRecord& job, Now now) {
  v1::WhyResponse response;
  response.set_state(job.state());
  const std::string name = StateName(job.state());
  const std::string since = common::HumanDuration(now.wall_ms - job.state_ms());
  switch (job.state()) {
    case v1::JOB_STATE_QUEUED:
      if (!job.held() && state.jobs.contains(job.id())) return WhyWaiting(state, job, {}, now);
      response.set_text(absl::StrCat(name, " ", since, ": ", job.reason()));
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
