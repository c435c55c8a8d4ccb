#include "coordinator/core/views/views.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/shape.h"
#include "common/outputs.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/views/last_words.h"
#include "coordinator/core/views/notice_text.h"
#include "coordinator/core/views/preparation_reports.h"

namespace muster::coordinator {
namespace {

constexpr size_t kCommandShown = 200;
constexpr size_t kErrorShown = 300;
constexpr size_t kReasonListed = 500;
constexpr int kDevicesShown = 16;

std::string SignalName(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  return abbreviation == nullptr ? absl::StrCat(signal)
                                 : absl::StrCat(signal, " (SIG", abbreviation, ")");
}

// "gpu 64".
std::vector<std::string> CountsOf(const google::protobuf::Map<std::string, uint32_t>& by_kind,
                                  const std::string& what) {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : std::map(by_kind.begin(), by_kind.end()))
    parts.push_back(absl::StrCat(what, " ", kind, " ", count));
  return parts;
}

std::string DescribeClaim(const v1::ClaimMade& claim) {
  std::vector<std::string> victims;
  for (const v1::Victim& victim : claim.victims())
    victims.push_back(absl::StrCat("job ", victim.job()));
  return absl::StrCat(absl::StrJoin(victims, ", "), " asked to save and give way within ",
                      common::HumanDuration(claim.period_ms()));
}

std::string DescribeNotice(const v1::Asked& asked) {
  v1::Notice notice;
  *notice.mutable_asked() = asked;
  return absl::StrCat(WhyItLeaves(notice), ", within ", common::HumanDuration(asked.period_ms()));
}

std::string DescribeProjects(const v1::ProjectsSet& set) {
  std::vector<std::string> projects;
  for (const v1::ProjectShare& project : set.projects()) {
    std::vector<std::string> parts = CountsOf(project.quota(), "quota");
    for (std::string& part : CountsOf(project.limit(), "limit")) parts.push_back(std::move(part));
    if (project.weight() > 1) parts.push_back(absl::StrCat("weight ", project.weight()));
    projects.push_back(absl::StrCat(project.name(), " ", absl::StrJoin(parts, ", ")));
  }
  return projects.empty() ? "no project has a quota"
                          : absl::StrCat("projects: ", absl::StrJoin(projects, "; "));
}

std::string DescribeSet(const v1::JobSet& set) {
  std::vector<std::string> parts;
  if (set.has_priority()) parts.push_back(absl::StrCat("priority ", set.priority()));
  if (set.has_estimate_ms()) {
    parts.push_back(set.estimate_ms() == 0
                        ? "no estimate"
                        : absl::StrCat("estimate ", common::HumanDuration(set.estimate_ms())));
  }
  if (set.has_project()) parts.push_back(absl::StrCat("project ", set.project()));
  if (set.has_urgent()) parts.push_back(set.urgent() ? "urgent" : "not urgent");
  return absl::StrCat("set by ", set.by(), ": ", absl::StrJoin(parts, ", "));
}

std::string DescribeRelease(const v1::JobReleased& released) {
  std::string text = absl::StrCat("released by ", released.by());
  if (released.has_without_step()) {
    absl::StrAppend(&text, ": it starts from the beginning, without the checkpoint of step ",
                    released.without_step(), ", which the coordinator ", released.held_by(),
                    " has");
  }
  return text;
}

std::string AttemptPrefix(const v1::Event& event) {
  return absl::StrCat("attempt ", event.attempt(), ": ");
}

// Strips PyTorch's prefix from a rank's line, and all but the event from Gloo's text.
std::string WhatWasSaid(std::string line) {
  if (line.starts_with("[rank")) {
    const size_t end = line.find("]: ");
    if (end != std::string::npos && end <= sizeof("[rank99999")) line.erase(0, end + 3);
  }
  constexpr std::string_view kAdvice = ". This is typically caused by a remote worker crashing";
  const size_t advice = line.find(kAdvice);
  if (advice == std::string::npos) return line;
  line.erase(advice);
  const size_t source = line.find("[/");
  const size_t end = source == std::string::npos ? source : line.find("] ", source);
  if (end != std::string::npos) line.erase(source, end + 2 - source);
  return line;
}

// For a signal that a process does not cause itself. Who else sent it (possibly the process) is
// unknown.
std::string Sender(const v1::RankExit& exit) {
  if (exit.stopped_by_us()) return "";
  if (exit.signal_sent_by_us()) return ", sent through Muster";
  return IsSentByPeople(exit.signal()) ? ", which Muster did not send" : "";
}

// A shell exits with 128 + N if signal N killed its command.
std::string ShellsWord(int exit_code) {
  const char* abbreviation = exit_code > 128 ? sigabbrev_np(exit_code - 128) : nullptr;
  return abbreviation == nullptr ? "" : absl::StrCat(" (128 + SIG", abbreviation, ")");
}

std::string DescribePartEnded(const v1::Event& event) {
  const v1::PartEnded& ended = event.part_ended();
  std::string text =
      absl::StrCat(AttemptPrefix(event), "nothing of it runs on ", event.node(), " anymore");
  // "empty": proven. Readers should see anything else: declared dead, fenced by time, survivors.
  if (!ended.how().empty() && ended.how() != "empty")
    absl::StrAppend(&text, " (", ended.how(), ")");
  if (!ended.failure().empty()) absl::StrAppend(&text, ": ", ended.failure());
  return text;
}

std::string DescribeStop(const v1::Event& event) {
  const v1::StopRequested& stop = event.stop_requested();
  if (stop.no_ranks()) return "cancel requested; it has no ranks to stop";
  return absl::StrCat(AttemptPrefix(event),
                      stop.grace_ms() == 0 ? "SIGKILL to all ranks"
                                           : absl::StrCat("SIGTERM to all ranks, SIGKILL after ",
                                                          common::HumanDuration(stop.grace_ms())));
}

std::string DescribeStateChange(const v1::JobStateChanged& change) {
  std::string text = absl::StrCat(StateName(change.from()), " → ", StateName(change.to()));
  if (!change.reason().empty()) absl::StrAppend(&text, ": ", change.reason());
  return text;
}

std::string DescribeStarted(const v1::Event& event) {
  const v1::Attempt& attempt = event.attempt_started().attempt();
  std::string text = absl::StrCat(AttemptPrefix(event), DescribeAttempt(attempt));
  if (attempt.resume_step() >= 0) {
    absl::StrAppend(&text, ", from the checkpoint of step ", attempt.resume_step());
  }
  return text;
}

void LeaveOutParts(v1::Attempt& attempt) {
  constexpr int kPartsKept = 1'000;
  if (attempt.parts_size() <= kPartsKept) return;
  attempt.set_parts_left_out(static_cast<uint32_t>(attempt.parts_size() - kPartsKept));
  attempt.mutable_parts()->DeleteSubrange(kPartsKept, attempt.parts_size() - kPartsKept);
}

std::string DescribeNodeChange(const v1::Event& event) {
  const v1::NodeStateChanged& change = event.node_state_changed();
  if (change.set_drain()) {
    return absl::StrCat(event.node(), change.draining() ? " is draining" : " accepts jobs again",
                        change.reason().empty() ? "" : absl::StrCat(": ", change.reason()));
  }
  return absl::StrCat(event.node(), " is ", NodeStateName(change.state()), ": ", change.reason());
}

std::string DescribeDisk(const v1::DiskSpace& disk) {
  return absl::StrCat(
      "the coordinator's disk ",
      disk.low() ? "is almost full: " : "has room again: ", common::HumanBytes(disk.free_bytes()),
      " of ", common::HumanBytes(disk.total_bytes()), " are free");
}

// "torch 2.11.0+cu130, built for CUDA 13.0; driver 535.104.05, for CUDA up to 12.2"
std::string DescribeVersions(const v1::Versions& versions) {
  std::string text = versions.framework();
  if (versions.toolkit() == "cpu") {
    text += ", built without CUDA";
  } else if (!versions.toolkit().empty()) {
    absl::StrAppend(&text, ", built for CUDA ", versions.toolkit());
  }
  if (!versions.driver().empty()) absl::StrAppend(&text, "; driver ", versions.driver());
  if (!versions.driver_cuda().empty())
    absl::StrAppend(&text, ", for CUDA up to ", versions.driver_cuda());
  return text;
}

// "notify[0] of the end: the command on node1 exited with 0"
std::string DescribeNotified(const v1::Notified& notified) {
  std::string text = absl::StrCat(
      "notify[", notified.entry(), "] of ",
      notified.finding().empty() ? "the end" : absl::StrCat("finding ", notified.finding()), ": ",
      notified.outcome());
  if (!notified.output().empty()) absl::StrAppend(&text, "; it printed: ", notified.output());
  return text;
}

std::string DescribeSilence(const v1::Event& event) {
  const v1::PartSilence& silence = event.part_silence();
  if (silence.state() == v1::NODE_STATE_ALIVE) {
    return absl::StrCat(AttemptPrefix(event), event.node(), " is in contact again");
  }
  return absl::StrCat(AttemptPrefix(event), event.node(), " is ", NodeStateName(silence.state()),
                      ": ", silence.reason());
}

// The kernel may have killed only one of the rank's processes, and the rank then failed because of
// that.
std::string DescribeMemoryLimit(const v1::RankExit& exit) {
  const std::string limit =
      absl::StrCat("it reached its memory limit of ", common::ExactBytes(exit.memory_limit_bytes()),
                   " (--memory)");
  if (exit.signal() == SIGKILL) return absl::StrCat(" was killed: ", limit);
  const std::string how = exit.signal() != 0
                              ? absl::StrCat(" was killed by signal ", SignalName(exit.signal()))
                              : absl::StrCat(" exited with code ", exit.exit_code());
  return absl::StrCat(how, " after one of its processes was killed: ", limit);
}

}  // namespace

std::string DescribeExit(const v1::RankExit& exit) {
  std::string text = absl::StrCat("rank ", exit.rank(), " on ", exit.node());
  if (exit.launch_errno() != 0) {
    std::string error = exit.launch_error();
    const std::string node = absl::StrCat("node ", exit.node(), ": ");
    if (error.starts_with(node)) error.erase(0, node.size());
    return absl::StrCat(text, " could not start: ", common::Printable(error));
  }
  if (exit.memory_limit_bytes() > 0) {
    absl::StrAppend(&text, DescribeMemoryLimit(exit));
  } else if (exit.out_of_memory()) {
    absl::StrAppend(&text, " was killed by the kernel: out of memory");
  } else if (exit.signal() != 0) {
    absl::StrAppend(&text, " was killed by signal ", SignalName(exit.signal()), Sender(exit));
  } else {
    absl::StrAppend(&text, " exited with code ", exit.exit_code(), ShellsWord(exit.exit_code()));
  }
  const std::string said = LastWords(exit);
  if (!said.empty()) {
    absl::StrAppend(&text, ": ",
                    common::Clipped(common::Printable(WhatWasSaid(said)), kErrorShown));
  }
  return text;
}

std::string DescribeAttempt(const v1::Attempt& attempt) {
  constexpr int kNodesNamed = 8;
  std::vector<std::string> nodes;
  for (const v1::NodePart& part : attempt.parts()) {
    if (nodes.size() == kNodesNamed) {
      nodes.push_back(absl::StrCat(attempt.parts_size() - kNodesNamed, " more"));
      break;
    }
    const int shown = std::min(part.device_indexes_size(), kDevicesShown);
    nodes.push_back(absl::StrCat(
        part.node(), ": ", part.device_kind(), " ",
        absl::StrJoin(part.device_indexes().begin(), part.device_indexes().begin() + shown, ","),
        shown < part.device_indexes_size() ? ",…" : ""));
  }
  return absl::StrCat(job::DescribeWorld(attempt.world_size(), attempt.parts_size()), " (",
                      absl::StrJoin(nodes, "; "), ")");
}

std::string ReasonForPeople(const v1::JobRecord& job) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt != nullptr && attempt->has_notice() && !attempt->stopping())
    return WhyItLeaves(attempt->notice());
  if (job.state() != v1::JOB_STATE_STARTING || attempt == nullptr) return job.reason();
  const std::string preparing = DescribePreparing(*attempt);
  return preparing.empty() ? job.reason() : absl::StrCat(job.reason(), "; ", preparing);
}

v1::JobSummary Summarize(const v1::JobRecord& job) {
  v1::JobSummary summary;
  summary.set_id(job.id());
  summary.set_name(job.name());
  summary.set_state(job.state());
  summary.set_reason(common::Clipped(ReasonForPeople(job), kReasonListed));
  summary.set_owner(job.owner());
  summary.set_owner_id(job.owner_id());
  summary.set_ranks(job.attempts().empty() ? WantedRanks(job.spec().shape())
                                           : job.attempts().rbegin()->world_size());
  summary.set_device_kind(job.resolved_device_kind().empty() ? job.spec().shape().device().kind()
                                                             : job.resolved_device_kind());
  summary.set_submitted_ms(job.submitted_ms());
  summary.set_finished_ms(job.finished_ms());
  summary.set_state_ms(job.state_ms());
  summary.set_attempts(job.next_attempt());
  summary.set_step(-1);
  summary.set_exit_code(job.exit_code());
  summary.set_first_running_ms(job.first_running_ms());
  summary.set_ran_ms(job.ran_ms());
  if (const v1::Attempt* attempt = LiveAttempt(job))
    summary.set_running_since_ms(attempt->running_ms());
  const v1::Checkpoint* latest = LatestCheckpoint(job);
  summary.set_checkpoint_step(latest == nullptr ? -1 : latest->step());
  summary.set_command(common::Clipped(absl::StrJoin(job.spec().command(), " "), kCommandShown));
  *summary.mutable_labels() = job.spec().labels();
  summary.set_priority(job.spec().priority());
  summary.set_held(job.held());
  summary.set_project(ProjectOf(job));
  summary.set_metric(job.spec().metric());
  return summary;
}

v1::NodeView ViewNode(const ClusterState& state, const Node& node) {
  v1::NodeView view;
  *view.mutable_record() = node.record;
  view.set_clearing(node.record.connected() && !node.cleared);
  if (node.record.connected()) *view.mutable_health() = node.health;
  const std::string& name = node.record.facts().name();
  std::map<std::string, uint32_t> total;
  for (const v1::Device& device : node.record.facts().devices()) ++total[device.kind()];
  for (const auto& [kind, count] : total) {
    v1::DeviceUse* use = view.add_uses();
    use->set_kind(kind);
    use->set_total(count);
    const auto used = node.used.find(kind);
    if (used != node.used.end()) use->set_used(static_cast<uint32_t>(used->second.size()));
  }
  ForEachLivePart(state, name,
                  [&](const auto& job, const auto&, const auto&) { view.add_jobs(job.name()); });
  return view;
}

std::string ClusterAlarm(const SchedulingState& state) {
  if (!MostNodesSilent(state)) return "";
  return absl::StrCat(
      state.silent_nodes, " of ", static_cast<int64_t>(state.nodes.size()) - state.lost_nodes,
      " nodes went silent at once, so the cause is more likely this coordinator's network: no "
      "rank is started elsewhere until half of the nodes are heard from; fix: check the network, "
      "or "
      "jobctl nodes declare-dead NODE for those that are really gone");
}

std::string DiskWarning(const ClusterState& state) {
  if (!state.disk.low()) return "";
  return absl::StrCat(DescribeDisk(state.disk),
                      "; jobctl rm removes finished jobs with all that is kept of them");
}

v1::JobRecord RecordForPeople(v1::JobRecord job) {
  job.set_reason(ReasonForPeople(job));
  ForEachSaved(job, [](v1::Checkpoint& checkpoint) {
    if (checkpoint.files().empty()) return;
    checkpoint.set_file_count(static_cast<uint32_t>(checkpoint.files_size()));
    checkpoint.clear_files();
  });
  size_t bytes = job.ByteSizeLong();
  const auto drop = [&](v1::Attempt& attempt, auto what) {
    if (bytes <= common::kAnswerBytesMax) return;
    what(attempt);
    bytes = job.ByteSizeLong();
  };
  for (v1::Attempt& attempt : *job.mutable_attempts()) drop(attempt, LeaveOutExits);
  for (v1::Attempt& attempt : *job.mutable_attempts()) drop(attempt, LeaveOutParts);
  return job;
}

v1::Event EventForPeople(v1::Event event) {
  if (event.has_checkpoint_part()) event.mutable_checkpoint_part()->clear_files();
  if (event.has_job_submitted()) {
    v1::JobRecord& record = *event.mutable_job_submitted()->mutable_record();
    record = RecordForPeople(std::move(record));
  }
  if (event.has_attempt_started())
    LeaveOutParts(*event.mutable_attempt_started()->mutable_attempt());
  return event;
}

std::string DescribeEvent(const v1::Event& event) {
  switch (event.what_case()) {
    case v1::Event::kJobSubmitted: {
      const v1::JobRecord& record = event.job_submitted().record();
      return absl::StrCat("submitted by ", record.owner(), " as ", record.name());
    }
    case v1::Event::kAttemptStarted:
      return DescribeStarted(event);
    case v1::Event::kMasterPortHeld:
      return event.master_port_held().port() == 0
                 ? absl::StrCat(AttemptPrefix(event), "the held port was lost with its worker")
                 : absl::StrCat(AttemptPrefix(event), event.node(), " holds MASTER_PORT ",
                                event.master_port_held().port());
    case v1::Event::kPartReady:
      return absl::StrCat(AttemptPrefix(event), event.node(), " is ready to launch");
    case v1::Event::kPartPreparing:
      return absl::StrCat(AttemptPrefix(event), event.node(), ": ", event.part_preparing().doing());
    case v1::Event::kPartLaunched:
      return absl::StrCat(AttemptPrefix(event), "all its ranks on ", event.node(), " have started");
    case v1::Event::kRankExited:
      return absl::StrCat(AttemptPrefix(event), DescribeExit(event.rank_exited().exit()),
                          event.rank_exited().first_failure() ? " (first failure)" : "");
    case v1::Event::kStopRequested:
      return DescribeStop(event);
    case v1::Event::kPartEnded:
      return DescribePartEnded(event);
    case v1::Event::kAttemptEnded:
      // The reason follows with the job's next state.
      return absl::StrCat(AttemptPrefix(event), "over, ", CauseName(event.attempt_ended().cause()));
    case v1::Event::kJobStateChanged:
      return DescribeStateChange(event.job_state_changed());
    case v1::Event::kReasonChanged:
      return event.reason_changed().reason();
    case v1::Event::kCheckpointPart:
      return absl::StrCat(AttemptPrefix(event), NameOfSaved(event.checkpoint_part().step()),
                          event.checkpoint_part().more() ? ": some files of part " : ": part ",
                          event.checkpoint_part().part() + 1, " of ",
                          event.checkpoint_part().parts(),
                          event.checkpoint_part().more() ? "" : " was uploaded");
    case v1::Event::kCheckpointCommitted:
      return absl::StrCat(AttemptPrefix(event), NameOfSaved(event.checkpoint_committed().step()),
                          event.checkpoint_committed().step() == common::kOutputsStep
                              ? " are committed"
                              : " is committed");
    case v1::Event::kCheckpointRemoved:
      if (event.checkpoint_removed().step() == common::kOutputsStep) {
        return absl::StrCat("the outputs of attempt ", event.checkpoint_removed().attempt(),
                            " were removed: ", event.checkpoint_removed().why());
      }
      return absl::StrCat("checkpoint ", event.checkpoint_removed().step(),
                          " was removed: ", event.checkpoint_removed().why());
    case v1::Event::kCheckpointFailed:
      return absl::StrCat(AttemptPrefix(event), event.checkpoint_failed().why(), " (on ",
                          event.node(), ")");
    case v1::Event::kCheckpointFlagged:
      if (event.checkpoint_flagged().step() == common::kOutputsStep) {
        return absl::StrCat(AttemptPrefix(event),
                            "its outputs are damaged: ", event.checkpoint_flagged().why());
      }
      return absl::StrCat("checkpoint ", event.checkpoint_flagged().step(),
                          " is damaged: ", event.checkpoint_flagged().why());
    case v1::Event::kAttemptTakenOver:
      return absl::StrCat(AttemptPrefix(event), "the coordinator ",
                          event.attempt_taken_over().head(), " leads now");
    case v1::Event::kCheckpointAbsent:
      return absl::StrCat("checkpoint ", event.checkpoint_absent().step(),
                          " cannot be fetched: the coordinator ", event.checkpoint_absent().held(),
                          " has it, and ", event.checkpoint_absent().at(), " leads");
    case v1::Event::kNodeRegistered:
      return absl::StrCat(
          event.node(), " registered (", event.node_registered().facts().advertise(), ", ",
          common::Counted(event.node_registered().facts().devices_size(), "device"), ")");
    case v1::Event::kNodeStateChanged:
      return DescribeNodeChange(event);
    case v1::Event::kNodeContact:
      return absl::StrCat(event.node(),
                          event.node_contact().connected() ? " is in contact" : " disconnected");
    case v1::Event::kJobRemoved:
      return absl::StrCat("removed by ", event.job_removed().by());
    case v1::Event::kJobReleased:
      return DescribeRelease(event.job_released());
    case v1::Event::kNodeRemoved: {
      const std::string& why = event.node_removed().reason();
      return absl::StrCat(event.node(), " was removed by ", event.node_removed().by(),
                          why.empty() ? "" : absl::StrCat(": ", why));
    }
    case v1::Event::kDiskSpace:
      return DescribeDisk(event.disk_space());
    case v1::Event::kStreamFailed: {
      const v1::ErrorDetail& error = event.stream_failed().error();
      return absl::StrCat(error.what(), error.why().empty() ? "" : ": ", error.why());
    }
    case v1::Event::kPartSilence:
      return DescribeSilence(event);
    case v1::Event::kPartVersions:
      return absl::StrCat(AttemptPrefix(event), event.node(), " runs ",
                          DescribeVersions(event.part_versions().versions()));
    case v1::Event::kFindingNoticed:
      return absl::StrCat(AttemptPrefix(event), "finding ",
                          event.finding_noticed().finding().code(), ": ",
                          event.finding_noticed().finding().sentence());
    case v1::Event::kNotified:
      return DescribeNotified(event.notified());
    case v1::Event::kJobProgress:
      return absl::StrCat(AttemptPrefix(event), "trains ",
                          common::HumanDuration(event.job_progress().left_ms()), " longer");
    case v1::Event::kClaimMade:
      return DescribeClaim(event.claim_made());
    case v1::Event::kClaimEnded:
      return absl::StrCat("nothing gives way to it any more: ", event.claim_ended().reason());
    case v1::Event::kNoticeGiven:
      return absl::StrCat(AttemptPrefix(event), DescribeNotice(event.notice_given().asked()));
    case v1::Event::kNoticeTakenBack:
      return absl::StrCat(AttemptPrefix(event), "may stay, says ", event.notice_taken_back().by());
    case v1::Event::kJobHeld:
      return absl::StrCat("held by ", event.job_held().by());
    case v1::Event::kProjectsSet:
      return DescribeProjects(event.projects_set());
    case v1::Event::kJobSet:
      return DescribeSet(event.job_set());
    case v1::Event::kPartAge:
      return absl::StrCat(AttemptPrefix(event), "its ranks on ", event.node(), " have run for ",
                          common::HumanDuration(event.part_age().ran_ms()));
    case v1::Event::kSignalSent:
      return absl::StrCat("signal ", SignalName(event.signal_sent().signal()), " sent by ",
                          event.signal_sent().by());
    case v1::Event::WHAT_NOT_SET:
      return "an event from a newer version";
  }
  return "";
}

}  // namespace muster::coordinator
