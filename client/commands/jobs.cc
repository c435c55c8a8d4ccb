// jobctl cancel, stop, signal, release, set and rm: commands on several jobs, one request each.
#include <algorithm>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/bulk.h"
#include "client/session/session.h"
#include "client/terminal/signals.h"
#include "common/base/status.h"
#include "common/job/rules.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kCancelFlags[] = {
    {"grace", 0, "TIME", "between SIGTERM and SIGKILL (default: the job's); 0 kills at once"},
    {"reason", 0, "TEXT", "recorded with the job"},
    kBulkOutputFlag,
};
constexpr Flag kJobsFlags[] = {kBulkOutputFlag};
constexpr Flag kSetFlags[] = {
    {"priority", 0, "P", "higher goes first"},
    {"estimate", 0, "TIME", "how long it takes, as far as you know; 0: not known"},
    {"project", 0, "NAME", "of jobs that wait: from now on they are of this project"},
    {"urgent", 0, "", "before all jobs that are not urgent; for operators"},
    {"not-urgent", 0, "", "no longer"},
    kBulkOutputFlag,
};
constexpr Flag kStopFlags[] = {
    {"notice", 0, "TIME", "how long it has to save (default: the coordinator's, 2 min); 0: none"},
    kBulkOutputFlag,
};
constexpr Flag kReleaseFlags[] = {
    {"from-scratch", 0, "", "start from the beginning, without a checkpoint elsewhere"},
    kBulkOutputFlag,
};

absl::StatusOr<int> Cancel(Session& session, const Arguments& arguments) {
  v1::CancelJobsRequest request;
  request.mutable_jobs()->Assign(arguments.words().begin(), arguments.words().end());
  ASSIGN_OR_RETURN(const int64_t grace_ms, arguments.DurationMs("grace", 0));
  request.set_has_grace(arguments.Has("grace"));
  request.set_grace_ms(static_cast<uint32_t>(grace_ms));
  request.set_reason(arguments.Get("reason"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::BulkResponse response, connection->CancelJobs(request));
  return ReportBulk(session, arguments, response, "is being cancelled");
}

absl::StatusOr<int> Stop(Session& session, const Arguments& arguments) {
  v1::StopJobsRequest request;
  request.mutable_jobs()->Assign(arguments.words().begin(), arguments.words().end());
  if (arguments.Has("notice")) {
    ASSIGN_OR_RETURN(const int64_t notice_ms, arguments.DurationMs("notice", 0));
    request.set_notice_ms(static_cast<uint32_t>(std::min<int64_t>(notice_ms, UINT32_MAX)));
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::BulkResponse response, connection->StopJobs(request));
  return ReportBulk(session, arguments, response, "is asked to save, and is held then");
}

absl::StatusOr<int> Signal(Session& session, const Arguments& arguments) {
  v1::SignalJobRequest request;
  request.set_job(arguments.words()[0]);
  ASSIGN_OR_RETURN(const int number, ParseSignal(arguments.words()[1]));
  request.set_signal(number);
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::BulkResponse response, connection->SignalJob(request));
  return ReportBulk(session, arguments, response, StrCat("gets ", SignalName(number)));
}

absl::StatusOr<int> Release(Session& session, const Arguments& arguments) {
  v1::ReleaseJobsRequest request;
  request.mutable_jobs()->Assign(arguments.words().begin(), arguments.words().end());
  request.set_from_scratch(arguments.Has("from-scratch"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::BulkResponse response, connection->ReleaseJobs(request));
  return ReportBulk(session, arguments, response,
                    request.from_scratch() ? "starts from the beginning" : "may restart");
}

absl::StatusOr<int> Set(Session& session, const Arguments& arguments) {
  v1::SetJobsRequest request;
  request.mutable_jobs()->Assign(arguments.words().begin(), arguments.words().end());
  if (arguments.Has("priority")) {
    ASSIGN_OR_RETURN(const int64_t priority,
                     arguments.Number("priority", job::kPriority.least, job::kPriority.most, 0));
    request.set_priority(static_cast<int32_t>(priority));
  }
  if (arguments.Has("estimate")) {
    ASSIGN_OR_RETURN(const int64_t estimate_ms, arguments.DurationMs("estimate", 0));
    request.set_estimate_ms(static_cast<uint64_t>(estimate_ms));
  }
  if (arguments.Has("urgent") && arguments.Has("not-urgent"))
    return Usage("JC1004", "--urgent and --not-urgent exclude each other", "give one of them");
  if (arguments.Has("urgent")) request.set_urgent(true);
  if (arguments.Has("not-urgent")) request.set_urgent(false);
  if (arguments.Has("project")) request.set_project(arguments.Get("project"));
  if (!request.has_priority() && !request.has_estimate_ms() && !request.has_urgent() &&
      !request.has_project()) {
    return Usage("JC1004", "there is nothing to set",
                 "jobctl set JOB --priority 5, --estimate 30m or --urgent");
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::BulkResponse response, connection->SetJobs(request));
  return ReportBulk(session, arguments, response, "is set");
}

absl::StatusOr<int> RemoveJobs(Session& session, const Arguments& arguments) {
  v1::JobReferences request;
  request.mutable_jobs()->Assign(arguments.words().begin(), arguments.words().end());
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  std::string what = common::Counted(arguments.words().size(), "job");
  if (arguments.words().size() == 1) {
    // The question names the actual job: @last may not be the one the user has in mind.
    ASSIGN_OR_RETURN(const v1::GetJobResponse job, connection->GetJob(arguments.words()[0]));
    what = job.record().name();
    request.set_jobs(0, std::to_string(job.record().id()));
  }
  RETURN_IF_ERROR(session.Confirm(StrCat("Remove ", what, " with logs, metrics and checkpoints?")));
  ASSIGN_OR_RETURN(const v1::BulkResponse response, connection->RemoveJobs(request));
  return ReportBulk(session, arguments, response, "removed");
}

}  // namespace

const Command kCancelCommand = {
    .name = "cancel",
    .place = 240,
    .summary = "stop jobs: SIGTERM, grace, SIGKILL",
    .arguments = "JOB…",
    .least = 1,
    .most = -1,
    .flags = kCancelFlags,
    .completes = "job",
    .examples =
        "jobctl cancel calm-otter-3\tstop it\n"
        "jobctl cancel $(jobctl ls --state queued -o name)\tall queued jobs, in one request",
    .run = Cancel};

const Command kStopCommand = {
    .name = "stop",
    .place = 245,
    .summary = "let jobs save, stop them, and hold them until jobctl release",
    .arguments = "JOB…",
    .least = 1,
    .most = -1,
    .flags = kStopFlags,
    .completes = "job",
    .examples =
        "jobctl stop calm-otter-3\tits devices are free once it has saved\n"
        "jobctl stop calm-otter-3 --notice 10m\tit may save for longer",
    .notes =
        "The trainer is asked for a checkpoint (should_checkpoint() of the SDK and of the\n"
        "muster package). The job is stopped as soon as that is committed, or when its\n"
        "time to save is over. It keeps its number, logs and checkpoints, and uses up no\n"
        "restart. A job that waits is held at once. jobctl release continues it.",
    .run = Stop};

const Command kSignalCommand = {
    .name = "signal",
    .place = 250,
    .summary = "send a signal to every rank of a job",
    .arguments = "JOB SIGNAL",
    .least = 2,
    .most = 2,
    .flags = kJobsFlags,
    .completes = "job signal",
    .examples = "jobctl signal calm-otter-3 USR1\tfor trainers that save a checkpoint on it",
    .run = Signal};

const Command kReleaseCommand = {
    .name = "release",
    .place = 260,
    .summary = "let held jobs continue",
    .arguments = "JOB…",
    .least = 1,
    .most = -1,
    .flags = kReleaseFlags,
    .completes = "job",
    .examples =
        "jobctl release calm-otter-3\tstopped by jobctl stop, or held after losing nodes\n"
        "jobctl release calm-otter-3 --from-scratch\tits checkpoint is on a coordinator that is "
        "gone",
    .notes =
        "--from-scratch is for a job that waits because its newest checkpoint is with a\n"
        "coordinator that does not lead now: it starts from step 0, and is never resumed\n"
        "from what it had saved before. jobctl rerun --from starts a new job from an\n"
        "older step instead.",
    .run = Release};

const Command kSetCommand = {
    .name = "set",
    .place = 265,
    .summary = "change priority, estimate or project of jobs that are not over",
    .arguments = "JOB…",
    .least = 1,
    .most = -1,
    .flags = kSetFlags,
    .completes = "job",
    .examples =
        "jobctl set calm-otter-3 --priority 5\tahead of jobs with a lower one\n"
        "jobctl set calm-otter-3 --estimate 30m\tit may start in a gap before others",
    .notes = "A job that runs keeps running: its priority counts once it waits again.",
    .run = Set};

const Command kRmCommand = {.name = "rm",
                            .place = 320,
                            .summary = "remove finished jobs and everything stored for them",
                            .arguments = "JOB…",
                            .least = 1,
                            .most = -1,
                            .flags = kJobsFlags,
                            .completes = "job",
                            .examples = "jobctl rm calm-otter-3 --yes\twithout confirmation",
                            .run = RemoveJobs};

}  // namespace muster::client
