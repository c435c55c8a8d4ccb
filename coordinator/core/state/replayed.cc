#include "coordinator/core/state/replayed.h"

#include "absl/strings/str_cat.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/lifecycle.h"

namespace muster::coordinator {
namespace {

// What must exist for an event to apply.
enum class Premise { kNothing, kJob, kAttempt, kPart, kNode };

Premise PremiseOf(const v1::Event& event) {
  switch (event.what_case()) {
    case v1::Event::kJobSubmitted:
    case v1::Event::kNodeRegistered:
    case v1::Event::kJobRemoved:
    case v1::Event::kDiskSpace:
    case v1::Event::kStreamFailed:
    case v1::Event::kPartSilence:
    case v1::Event::kNotified:
    case v1::Event::kProjectsSet:
    case v1::Event::WHAT_NOT_SET:
      return Premise::kNothing;
    case v1::Event::kAttemptStarted:
    case v1::Event::kStopRequested:
    case v1::Event::kJobStateChanged:
    case v1::Event::kReasonChanged:
    case v1::Event::kCheckpointPart:
    case v1::Event::kCheckpointCommitted:
    case v1::Event::kCheckpointRemoved:
    case v1::Event::kCheckpointFlagged:
    case v1::Event::kCheckpointAbsent:
    case v1::Event::kJobReleased:
    case v1::Event::kSignalSent:
    case v1::Event::kFindingNoticed:
    case v1::Event::kJobSet:
    case v1::Event::kJobHeld:
    case v1::Event::kClaimMade:
    case v1::Event::kClaimEnded:
      return Premise::kJob;
    case v1::Event::kMasterPortHeld:
    case v1::Event::kAttemptEnded:
    case v1::Event::kAttemptTakenOver:
    case v1::Event::kNoticeGiven:
    case v1::Event::kNoticeTakenBack:
    case v1::Event::kPartAge:
    case v1::Event::kJobProgress:
      return Premise::kAttempt;
    case v1::Event::kPartReady:
    case v1::Event::kPartPreparing:
    case v1::Event::kPartLaunched:
    case v1::Event::kRankExited:
    case v1::Event::kPartEnded:
    case v1::Event::kCheckpointFailed:
    case v1::Event::kPartVersions:
      return Premise::kPart;
    case v1::Event::kNodeStateChanged:
    case v1::Event::kNodeContact:
    case v1::Event::kNodeRemoved:
      return Premise::kNode;
  }
  return Premise::kNothing;
}

bool HasRanks(v1::JobState state) {
  return state == v1::JOB_STATE_STARTING || state == v1::JOB_STATE_RUNNING ||
         state == v1::JOB_STATE_STOPPING;
}

bool HasPart(const v1::JobRecord& job) {
  return !job.attempts().empty() && !job.attempts().rbegin()->parts().empty();
}

// A launch would name a checkpoint that is not there.
bool LacksWhatItStartsFrom(const v1::JobRecord& job, const v1::Attempt& attempt) {
  return attempt.resume_step() >= 0 && !attempt.stopping() && attempt.ended_ms() == 0 &&
         !AllPartsLaunched(attempt) && ResumedCheckpoint(job, attempt) == nullptr;
}

bool IsSound(const v1::JobRecord& job) {
  if (!v1::JobState_IsValid(job.state()) || job.state() == v1::JOB_STATE_UNSPECIFIED) return false;
  if (HasRanks(job.state()) ? !HasPart(job) : LiveAttempt(job) != nullptr) return false;
  return job.attempts().empty() || !LacksWhatItStartsFrom(job, *job.attempts().rbegin());
}

absl::Status Contradiction(const v1::JobRecord& job) {
  return absl::DataLossError(absl::StrCat("the record of job ", job.id(), " contradicts itself"));
}

// Whether the newest attempt is starting from the checkpoint that the event removes.
bool TakesWhatItStartsFrom(const v1::JobRecord& job, const v1::CheckpointRemoved& removed) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr || attempt->stopping() || AllPartsLaunched(*attempt)) return false;
  const v1::Checkpoint* resumed =
      attempt->resume_step() < 0 ? nullptr : ResumedCheckpoint(job, *attempt);
  return resumed != nullptr && resumed->step() == removed.step() &&
         resumed->attempt() == removed.attempt();
}

absl::Status Misfit(const v1::Event& event, const std::string& why) {
  return absl::DataLossError(absl::StrCat("event ", event.seq(),
                                          " does not follow from those "
                                          "before it: ",
                                          why));
}

absl::Status CheckStateChange(const v1::JobRecord& job, const v1::Event& event) {
  const v1::JobStateChanged& change = event.job_state_changed();
  if (change.from() != job.state() || !IsLegalEdge(change.from(), change.to())) {
    return Misfit(
        event, absl::StrCat("job ", job.id(), " is ", StateName(job.state()), " and cannot become ",
                            StateName(change.to()), " from ", StateName(change.from())));
  }
  if (HasRanks(change.to()) && !HasPart(job)) {
    return Misfit(event, absl::StrCat("job ", job.id(), " has no attempt that could be ",
                                      StateName(change.to())));
  }
  return absl::OkStatus();
}

absl::Status CheckAttempt(const v1::JobRecord& job, const v1::Event& event) {
  const v1::Attempt& attempt = event.attempt_started().attempt();
  if (attempt.parts().empty()) {
    return Misfit(event, absl::StrCat("the attempt of job ", job.id(), " has no part"));
  }
  if (job.state() != v1::JOB_STATE_QUEUED || LiveAttempt(job) != nullptr || attempt.stopping() ||
      attempt.ended_ms() != 0) {
    return Misfit(event, absl::StrCat("job ", job.id(), " cannot start an attempt"));
  }
  if (!LacksWhatItStartsFrom(job, attempt)) return absl::OkStatus();
  return Misfit(event, absl::StrCat("job ", job.id(), " has no checkpoint of step ",
                                    attempt.resume_step(), " to start from"));
}

absl::Status CheckNode(const ClusterState& state, const v1::Event& event) {
  if (state.nodes.contains(event.node())) return absl::OkStatus();
  return Misfit(event,
                absl::StrCat("node ", common::Printable(event.node()), " is not registered"));
}

absl::Status CheckSnapshot(const v1::Snapshot& snapshot) {
  if (snapshot.format() == 0 || snapshot.format() > kSnapshotFormat) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1603",
         .what = absl::StrCat("the journal holds a snapshot of format ", snapshot.format(),
                              "; this version reads formats up to ", kSnapshotFormat),
         .fix = "start the version of muster-coordinator that wrote it"});
  }
  for (const v1::JobRecord& job : snapshot.jobs()) {
    if (!IsSound(job)) return Contradiction(job);
  }
  return absl::OkStatus();
}

absl::Status CheckEvent(const ClusterState& state, const v1::Event& event) {
  const Premise premise = PremiseOf(event);
  if (premise == Premise::kNode) return CheckNode(state, event);
  if (event.has_node_registered() && event.node() != event.node_registered().facts().name()) {
    return Misfit(event, absl::StrCat("node ", common::Printable(event.node()),
                                      " was registered under another name"));
  }
  if (event.has_job_submitted() && event.job_submitted().record().state() != v1::JOB_STATE_QUEUED) {
    return Misfit(event, absl::StrCat("job ", event.job_submitted().record().id(),
                                      " was submitted in a state other than QUEUED"));
  }
  if (event.has_job_submitted() && state.jobs.contains(event.job_submitted().record().id())) {
    return Misfit(
        event, absl::StrCat("job ", event.job_submitted().record().id(), " was submitted before"));
  }
  if (premise == Premise::kNothing) return absl::OkStatus();
  const auto found = state.jobs.find(event.job());
  if (found == state.jobs.end()) {
    return Misfit(event, absl::StrCat("there is no job ", event.job()));
  }
  const v1::JobRecord& job = found->second;
  if (event.has_job_state_changed()) return CheckStateChange(job, event);
  if (event.has_attempt_started()) return CheckAttempt(job, event);
  if (event.has_checkpoint_removed() && TakesWhatItStartsFrom(job, event.checkpoint_removed())) {
    return Misfit(event, absl::StrCat("job ", job.id(), " is starting from the checkpoint"));
  }
  if (premise == Premise::kJob) return absl::OkStatus();
  if (!HasPart(job)) {
    return Misfit(event, absl::StrCat("job ", job.id(), " has no attempt"));
  }
  if (premise == Premise::kPart && FindPart(*job.attempts().rbegin(), event.node()) == nullptr) {
    return Misfit(event, absl::StrCat("node ", common::Printable(event.node()),
                                      " has no part in job ", job.id(), "'s attempt"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaySnapshot(ClusterState& state, const v1::Snapshot& snapshot, Now now) {
  if (absl::Status fits = CheckSnapshot(snapshot); !fits.ok()) return fits;
  RestoreSnapshot(state, snapshot, now);
  return absl::OkStatus();
}

absl::Status ReplayEvent(ClusterState& state, const v1::Event& event, Now now) {
  if (absl::Status fits = CheckEvent(state, event); !fits.ok()) return fits;
  Apply(state, event, now);
  return absl::OkStatus();
}

absl::Status CheckReplayed(const ClusterState& state) {
  for (const auto& [id, job] : state.jobs) {
    if (!IsSound(job)) return Contradiction(job);
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
