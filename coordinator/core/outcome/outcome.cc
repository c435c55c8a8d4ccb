#include "coordinator/core/outcome/outcome.h"

#include <algorithm>
#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/node_shortage.h"
#include "coordinator/core/outcome/first_cause.h"
#include "coordinator/core/outcome/lasting_failure.h"
#include "coordinator/core/state/lifecycle.h"
#include "coordinator/core/views/last_words.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

constexpr int kExitCancelled = 130;
constexpr int kExitTimeLimit = 124;

bool EveryRankLeftWithZero(const v1::Attempt& attempt) {
  uint32_t exits = 0;
  for (const v1::NodePart& part : attempt.parts()) {
    for (const v1::RankExit& exit : part.exits()) {
      if (IsFailure(exit)) return false;
      ++exits;
    }
  }
  return exits == attempt.world_size();
}

bool AnyStoppedByUs(const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    for (const v1::RankExit& exit : part.exits()) {
      if (exit.stopped_by_us()) return true;
    }
  }
  return false;
}

const v1::NodePart* FailedPart(const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (!part.failure().empty()) return &part;
  }
  return nullptr;
}

int ExitCodeOf(const v1::Attempt& attempt) {
  switch (attempt.cause()) {
    case v1::STOP_CAUSE_COMPLETED:
      return 0;
    case v1::STOP_CAUSE_CANCELLED:
    case v1::STOP_CAUSE_CLIENT_GONE:
      return kExitCancelled;
    case v1::STOP_CAUSE_TIME_LIMIT:
      return kExitTimeLimit;
    default:
      break;
  }
  if (!attempt.has_culprit()) return 1;
  const v1::RankExit& culprit = attempt.culprit();
  if (culprit.signal() > 0) return 128 + culprit.signal();
  return culprit.exit_code() != 0 ? culprit.exit_code() : 1;
}

// A failure that the program caused itself, so it would recur. A SIGKILL or SIGTERM that someone
// sent does not count.
bool IsOwnFailure(const v1::RankExit& culprit) {
  if (culprit.out_of_memory()) return true;
  return culprit.signal() != SIGKILL && culprit.signal() != SIGTERM && culprit.signal() != SIGINT;
}

bool SavedSomething(const v1::JobRecord& job, const v1::Attempt& attempt) {
  return std::any_of(job.checkpoints().begin(), job.checkpoints().end(),
                     [&](const v1::Checkpoint& checkpoint) {
                       return checkpoint.attempt() == attempt.number() &&
                              checkpoint.committed_ms() > attempt.started_ms();
                     });
}

// A rank failed within seconds of the start, and nothing was saved.
bool FailedAtOnce(const ClusterState& state, const v1::JobRecord& job, const v1::Attempt& attempt) {
  if (attempt.cause() != v1::STOP_CAUSE_RANK_FAILED || !attempt.has_culprit()) return false;
  const int64_t began = attempt.running_ms() > 0 ? attempt.running_ms() : attempt.started_ms();
  // Measured on the failing node's monotonic clock if known.
  const int64_t lasted = attempt.culprit().since_start_us() > 0
                             ? attempt.culprit().since_start_us() / 1000
                             : attempt.stopping_ms() - began;
  return lasted <= state.settings.quick_failure_ms && !SavedSomething(job, attempt);
}

// How many of the newest attempts in a row failed at once. Counts only attempts in the record,
// which is enough to compute the pause.
uint32_t FailedAtOnceInARow(const ClusterState& state, const v1::JobRecord& job) {
  const auto& attempts = job.attempts();
  const auto other = std::find_if_not(
      attempts.rbegin(), attempts.rend(),
      [&](const v1::Attempt& attempt) { return FailedAtOnce(state, job, attempt); });
  return static_cast<uint32_t>(std::distance(attempts.rbegin(), other));
}

// How the attempt failed, if it failed within seconds of its start without saving anything, and
// would again; otherwise empty.
std::string QuickFailure(const ClusterState& state, const v1::JobRecord& job,
                         const v1::Attempt& attempt) {
  if (!FailedAtOnce(state, job, attempt) || !IsOwnFailure(attempt.culprit())) return "";
  const v1::RankExit& culprit = attempt.culprit();
  return absl::StrCat("code ", culprit.exit_code(), " signal ", culprit.signal(), " ",
                      culprit.error_message());
}

bool CountsAsNodeLoss(v1::StopCause cause) {
  return cause == v1::STOP_CAUSE_NODE_LOST || cause == v1::STOP_CAUSE_START_TIMEOUT ||
         cause == v1::STOP_CAUSE_LAUNCH_INTERRUPTED;
}

// 1 s, 2 s, 4 s, … depending on how many came before.
int64_t PauseMs(const Settings& settings, uint32_t before) {
  return std::min(settings.backoff_max_ms,
                  settings.backoff_first_ms << std::min<uint32_t>(before, 20));
}

// After a SIGKILL or SIGTERM that someone sent, a job restarts at once; but a job that is killed again within
// seconds of each start (or kills itself) must not keep the cluster busy with starts.
int64_t PauseAfterFailure(const ClusterState& state, const v1::JobRecord& job, bool is_own) {
  const uint32_t in_a_row = FailedAtOnceInARow(state, job) + (is_own ? 1 : 0);
  return in_a_row < 2 ? 0 : PauseMs(state.settings, in_a_row - 2);
}

std::string InPause(int64_t pause_ms) {
  return pause_ms > 0 ? absl::StrCat("in ", (pause_ms + 999) / 1000, " s, ") : "";
}

v1::JobStateChanged Change(const v1::JobRecord& job, v1::JobState to, const std::string& reason) {
  v1::JobStateChanged change;
  change.set_from(job.state());
  change.set_to(to);
  change.set_reason(reason);
  return change;
}

v1::JobStateChanged Final(const v1::JobRecord& job, const v1::Attempt& attempt, v1::JobState to,
                          const std::string& reason) {
  v1::JobStateChanged change = Change(job, to, reason);
  change.set_cause(attempt.cause());
  change.set_exit_code(ExitCodeOf(attempt));
  return change;
}

std::string NextStart(const v1::JobRecord& job) {
  const v1::Checkpoint* latest = LatestCheckpoint(job);
  if (latest != nullptr) return absl::StrCat("from the checkpoint of step ", latest->step());
  return job.fresh_from() > 0
             ? "from the beginning, as there is no checkpoint since it was released"
             : "from the beginning, as there is no checkpoint";
}

v1::JobStateChanged AfterNodeLoss(const ClusterState& state, const v1::JobRecord& job,
                                  const v1::Attempt& attempt) {
  const uint32_t budget = job.spec().node_loss_restarts() > 0
                              ? job.spec().node_loss_restarts()
                              : state.settings.default_node_loss_restarts;
  if (job.node_losses() >= budget) {
    return Final(
        job, attempt, v1::JOB_STATE_FAILED,
        absl::StrCat(attempt.reason(), "; all ", budget, " restarts for lost nodes are used up"));
  }
  const bool lost_a_node = attempt.cause() == v1::STOP_CAUSE_NODE_LOST;
  const uint32_t in_a_row =
      lost_a_node && !SavedSomething(job, attempt) ? job.node_losses_in_a_row() + 1 : 0;
  if (in_a_row >= state.settings.node_losses_in_a_row_max) {
    v1::JobStateChanged held =
        Change(job, v1::JOB_STATE_QUEUED,
               absl::StrCat("held: ", attempt.reason(), "; ", in_a_row,
                            " attempts in a row lost a node before anything was saved, so this "
                            "job may be what takes the nodes down; fix: jobctl release ",
                            job.name(), ", or cancel it"));
    held.set_held(true);
    held.set_used_node_loss(true);
    return held;
  }
  // After a lost node there is no need to wait, because time has passed already; a failing launch,
  // however, would repeat without a pause.
  const int64_t pause =
      lost_a_node || job.node_losses() == 0 ? 0 : PauseMs(state.settings, job.node_losses() - 1);
  v1::JobStateChanged change =
      Change(job, pause > 0 ? v1::JOB_STATE_RESTARTING : v1::JOB_STATE_QUEUED,
             absl::StrCat(attempt.reason(), "; restarts ", InPause(pause), NextStart(job), " (",
                          job.node_losses() + 1, " of ", budget, " restarts for lost nodes)"));
  change.set_backoff_ms(static_cast<uint32_t>(pause));
  change.set_used_node_loss(true);
  change.set_node_losses_in_a_row(in_a_row);
  return change;
}

// The attempt could not start because others had used up a resource of its node.
bool LackedRoom(const v1::Attempt& attempt) {
  if (attempt.cause() == v1::STOP_CAUSE_RANK_FAILED) {
    return attempt.has_culprit() && common::IsShortage(attempt.culprit().launch_errno());
  }
  return attempt.cause() == v1::STOP_CAUSE_LAUNCH_INTERRUPTED &&
         std::any_of(attempt.parts().begin(), attempt.parts().end(), [](const v1::NodePart& part) {
           return part.how_ended() == common::kEndedForShortage;
         });
}

// The job waits, as it does for devices: no matter how long others use the resource up, this job
// loses no restart.
v1::JobStateChanged AfterShortage(const ClusterState& state, const v1::JobRecord& job,
                                  const v1::Attempt& attempt) {
  const auto& attempts = job.attempts();
  const auto other = std::find_if_not(attempts.rbegin(), attempts.rend(), LackedRoom);
  const auto in_a_row = static_cast<uint32_t>(std::distance(attempts.rbegin(), other));
  const int64_t pause = PauseMs(state.settings, in_a_row - 1);
  v1::JobStateChanged change = Change(job, v1::JOB_STATE_RESTARTING,
                                      absl::StrCat(attempt.reason(), "; restarts ", InPause(pause),
                                                   NextStart(job), " (this uses up no restart)"));
  change.set_backoff_ms(static_cast<uint32_t>(pause));
  return change;
}

// A program that kills its own supervisor must not restart endlessly.
v1::JobStateChanged AfterSupervisorLoss(const ClusterState& state, const v1::JobRecord& job,
                                        const v1::Attempt& attempt) {
  const uint32_t budget = state.settings.supervisor_restarts;
  if (job.supervisor_losses() >= budget) {
    return Final(job, attempt, v1::JOB_STATE_FAILED,
                 absl::StrCat(attempt.reason(), "; all ", budget,
                              " restarts for lost supervisors are used up; does the program kill "
                              "processes other than its own?"));
  }
  const int64_t pause = PauseMs(state.settings, job.supervisor_losses());
  v1::JobStateChanged change = Change(
      job, v1::JOB_STATE_RESTARTING,
      absl::StrCat(attempt.reason(), "; restarts ", InPause(pause), NextStart(job), " (",
                   job.supervisor_losses() + 1, " of ", budget, " restarts for lost supervisors)"));
  change.set_backoff_ms(static_cast<uint32_t>(pause));
  change.set_used_supervisor_loss(true);
  return change;
}

// Where to look if the sentence quotes nothing although the rank printed something.
std::string WhereItSpoke(const v1::JobRecord& job, const v1::RankExit& culprit) {
  if (culprit.last_lines().empty() || !LastWords(culprit).empty()) return "";
  return absl::StrCat("; its last lines: jobctl logs ", job.name(), " --rank ", culprit.rank());
}

v1::JobStateChanged AfterFailure(const ClusterState& state, const v1::JobRecord& job,
                                 const v1::Attempt& attempt) {
  const uint32_t budget = job.spec().restarts();
  if (attempt.culprit().launch_errno() != 0) {
    return Final(job, attempt, v1::JOB_STATE_FAILED, attempt.reason());  // it would fail again
  }
  const std::string spoke = WhereItSpoke(job, attempt.culprit());
  if (attempt.culprit().exit_code() == kDoNotRetryExitCode) {
    return Final(job, attempt, v1::JOB_STATE_FAILED,
                 absl::StrCat(attempt.reason(), "; code 93 asks not to be retried", spoke));
  }
  if (job.failures() >= budget) {
    const std::string used =
        budget == 0 ? "" : absl::StrCat("; ", budget, " of ", budget, " restarts are used up");
    return Final(job, attempt, v1::JOB_STATE_FAILED, absl::StrCat(attempt.reason(), used, spoke));
  }
  const std::string quick = QuickFailure(state, job, attempt);
  // Only for the first attempt: if an earlier one came further, the command can work.
  const bool is_first = job.attempts_size() == 1 && job.dropped_attempts() == 0;
  const std::string_view recurs =
      is_first && !quick.empty() ? WhyItWouldRecur(attempt.culprit()) : std::string_view();
  if (!recurs.empty()) {
    return Final(job, attempt, v1::JOB_STATE_FAILED,
                 absl::StrCat(attempt.reason(), "; not restarted: ", std::string(recurs),
                              "; once that is mended: jobctl rerun ", job.name()));
  }
  const uint32_t in_a_row = quick.empty()                  ? 0
                            : quick == job.quick_failure() ? job.quick_failures() + 1
                                                           : 1;
  if (in_a_row >= static_cast<uint32_t>(state.settings.same_quick_failures_max)) {
    return Final(job, attempt, v1::JOB_STATE_FAILED,
                 absl::StrCat(attempt.reason(), "; it failed ", in_a_row,
                              " times the same way within seconds of its start, so the remaining ",
                              budget - job.failures(), " restarts are skipped", spoke));
  }
  const int64_t pause = PauseAfterFailure(state, job, !quick.empty());
  v1::JobStateChanged change =
      Change(job, pause > 0 ? v1::JOB_STATE_RESTARTING : v1::JOB_STATE_QUEUED,
             absl::StrCat(attempt.reason(), "; restarts ", InPause(pause), NextStart(job),
                          " (restart ", job.failures() + 1, " of ", budget, ")"));
  change.set_backoff_ms(static_cast<uint32_t>(pause));
  change.set_used_restart(true);
  change.set_quick_failures(in_a_row);
  change.set_quick_failure(quick);
  return change;
}

}  // namespace

v1::AttemptEnded JudgeAttempt(const v1::Attempt& attempt) {
  v1::AttemptEnded ended;
  if (EveryRankLeftWithZero(attempt) && !(attempt.stopping() && AnyStoppedByUs(attempt))) {
    ended.set_cause(v1::STOP_CAUSE_COMPLETED);
    ended.set_reason(attempt.world_size() == 1
                         ? "the rank exited with code 0"
                         : absl::StrCat("all ", attempt.world_size(), " ranks exited with code 0"));
  } else if (attempt.stopping()) {
    ended.set_cause(attempt.cause());
    ended.set_reason(attempt.reason());
    JudgeFirstCause(attempt, ended);
  } else if (const v1::NodePart* failed = FailedPart(attempt); failed != nullptr) {
    ended.set_cause(failed->failure_cause());
    ended.set_reason(failed->failure());
  } else {
    ended.set_cause(v1::STOP_CAUSE_SUPERVISOR_LOST);
    ended.set_reason("it ended without a report from some of its ranks");
  }
  return ended;
}

namespace {

v1::JobStateChanged JudgeUnheld(const ClusterState& state, const v1::JobRecord& job) {
  const v1::Attempt& attempt = *job.attempts().rbegin();
  if (attempt.cause() == v1::STOP_CAUSE_COMPLETED) {
    return Final(job, attempt, v1::JOB_STATE_SUCCEEDED, attempt.reason());
  }
  if (job.cancel_requested()) {
    v1::JobStateChanged change = Final(job, attempt, v1::JOB_STATE_CANCELLED, job.reason());
    change.set_reason(attempt.reason());
    return change;
  }
  if (attempt.cause() == v1::STOP_CAUSE_TIME_LIMIT ||
      attempt.cause() == v1::STOP_CAUSE_LAUNCH_FAILED) {
    return Final(job, attempt, v1::JOB_STATE_FAILED, attempt.reason());
  }
  if (WasAskedToLeave(attempt.cause())) {
    return Change(job, v1::JOB_STATE_QUEUED,
                  absl::StrCat(attempt.reason(), "; continues ", NextStart(job),
                               " (this uses up no restart)"));
  }
  if (LackedRoom(attempt)) return AfterShortage(state, job, attempt);
  if (CountsAsNodeLoss(attempt.cause())) return AfterNodeLoss(state, job, attempt);
  if (attempt.cause() == v1::STOP_CAUSE_SUPERVISOR_LOST) {
    return AfterSupervisorLoss(state, job, attempt);
  }
  return AfterFailure(state, job, attempt);
}

}  // namespace

// Whatever ended the attempt of a job that a person stops: it waits for that person.
v1::JobStateChanged JudgeJob(const ClusterState& state, const v1::JobRecord& job) {
  v1::JobStateChanged change = JudgeUnheld(state, job);
  const v1::Attempt& attempt = *job.attempts().rbegin();
  const bool waits = change.to() == v1::JOB_STATE_QUEUED || change.to() == v1::JOB_STATE_RESTARTING;
  if (!attempt.notice().asked().hold() || !waits || change.held()) return change;
  change.set_to(v1::JOB_STATE_QUEUED);
  change.clear_backoff_ms();
  change.set_held(true);
  change.set_reason(absl::StrCat("held: ", attempt.reason(), "; jobctl release ", job.name(),
                                 " continues it ", NextStart(job)));
  return change;
}

}  // namespace muster::coordinator
