// jobctl submit and validate.
#include "client/code/code_sync.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/follow/follow.h"
#include "client/follow/refusal.h"
#include "client/session/session.h"
#include "client/submit/job_flags.h"
#include "client/submit/spec.h"
#include "client/terminal/listing.h"
#include "client/terminal/record_json.h"
#include "client/terminal/signals.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/job/shape.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr auto kSubmitFlags = WithJobFlags<kForSubmit>({
    {"dry-run", 0, "", "validate and place the job, but change nothing"},
    {"wait", 0, "", "wait until the job is over: 0 succeeded, 100 failed, 103 cancelled, 104 held"},
    {"follow", 'f', "", "show the output until the job is over; Ctrl-C detaches"},
    {"no-fold", 0, "", "with --follow on a terminal: show equal lines of several ranks one by one"},
    {"propagate", 0, "", "with --wait or --follow: return the failing rank's code"},
    {"idempotency-key", 0, "KEY", "submit at most once under this key"},
    {"output", 'o', "FORMAT", "name: only the name; json", "name|json"},
});
constexpr auto kValidateFlags = WithJobFlags<kForValidate>({
    kRecordOutputFlag,
});

absl::StatusOr<int> DryRun(Session& session, Connection& connection,
                           const v1::SubmitRequest& request, const std::string& output) {
  const absl::StatusOr<v1::SubmitResponse> answer = connection.Submit(request);
  if (!answer.ok()) return ExplainRefusal(answer.status(), request.spec(), connection);
  const v1::SubmitResponse& response = *answer;
  const std::string layout =
      response.layout().empty() ? job::DescribeShape(request.spec().shape()) : response.layout();
  if (output == "json") {
    session.Print(common::JsonObject::OfKind("DryRun")
                      .Add("dry_run", true)
                      .Add("layout", layout)
                      .Add("starts_now", response.reason().empty())
                      .Add("reason", response.reason())
                      .Line());
    return kExitOk;
  }
  std::string text = StrCat(response.layout().empty() ? "requests: " : "fits: ", layout, "\n");
  if (!response.reason().empty())
    common::StrAppend(&text, "would wait: ", common::Printable(response.reason()), "\n");
  session.Print(text);
  return kExitOk;
}

void Report(Session& session, const Arguments& arguments, const v1::SubmitResponse& response) {
  const std::string output = arguments.Get("output");
  if (output == "name") {
    session.Print(StrCat(response.name(), "\n"));
    return;
  }
  if (output == "json") {
    session.Print(common::JsonObject::OfKind("SubmittedJob")
                      .Add("job", response.job())
                      .Add("name", response.name())
                      .Add("existed", response.existed())
                      .Add("queue_position", response.queue_position())
                      .Add("reason", response.reason())
                      .Line());
    return;
  }
  std::string detail;
  if (response.existed()) {
    detail = " (this key was used before; it is the same job)";
  } else if (response.queue_position() > 0) {
    detail = StrCat(
        " (queue #", response.queue_position(),
        response.reason().empty() ? "" : StrCat(": ", common::Printable(response.reason())), ")");
  } else if (!response.layout().empty()) {
    detail = StrCat(" (", response.layout(), ")");
  }
  session.Print(StrCat(response.name(), " submitted", detail, "\n"));
  session.Note(StrCat("next: jobctl logs -f ", response.name(), "   jobctl why ", response.name()));
}

absl::StatusOr<int> AwaitEnd(Session& session, Connection& connection, const std::string& name,
                             bool propagate) {
  DetachFrom(session, name, "wait");
  v1::WatchJobRequest watch;
  watch.set_job(name);
  v1::JobRecord record;
  const auto on_update = [&](const v1::JobUpdate& update) {
    record = update.record();
    return !IsAtRest(record);
  };
  absl::Status status = connection.WatchJob(watch, 0, on_update);
  while (absl::IsUnavailable(status)) {
    ASSIGN_OR_RETURN(Connection * again, Reconnect(session, status));
    status = again->WatchJob(watch, 0, on_update);
  }
  RETURN_IF_ERROR(status);
  session.Note(StrCat(name, " ", Verdict(record, session.terminal().color_err)));
  return WaitExitCode(record, propagate);
}

absl::StatusOr<int> Submit(Session& session, const Arguments& arguments) {
  if (arguments.words().empty() && !arguments.has_rest() && !arguments.Has("set")) {
    return Usage("JC1004", "nothing to submit",
                 "jobctl submit train.yaml, or jobctl submit -n 2 -- python "
                 "train.py");
  }
  if (arguments.Has("dry-run") && arguments.Get("output") == "name") {
    return Usage("JC1004", "--dry-run creates no job, so there is no name to print",
                 "omit -o name, or use -o json");
  }
  WatchSignals();  // for an upload
  if (arguments.Has("follow") || arguments.Has("wait")) SubmitInterruptibly(session);
  ASSIGN_OR_RETURN(Submission submission, BuildSubmission(session, arguments));
  RETURN_IF_ERROR(AwaitNodesFor(session, submission.spec));
  if (arguments.Has("dry-run")) {
    LeaveOutCode(submission.code, &submission.spec);
  } else {
    RETURN_IF_ERROR(SendCode(session, submission.code, &submission.spec));
  }
  v1::SubmitRequest request;
  *request.mutable_spec() = std::move(submission.spec);
  request.set_idempotency_key(arguments.Get("idempotency-key", session.idempotency_key()));
  request.set_queue_anyway(arguments.Has("queue-anyway"));
  request.set_dry_run(arguments.Has("dry-run"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  if (request.dry_run()) return DryRun(session, *connection, request, arguments.Get("output"));
  absl::StatusOr<v1::SubmitResponse> answer = connection->Submit(request);
  if (!answer.ok()) return ExplainRefusal(answer.status(), request.spec(), *connection);
  v1::SubmitResponse& response = *answer;
  if (response.name().empty()) {
    // A job known by its key that is already over: the coordinator's index of keys has only its
    // number.
    const auto known = connection->GetJob(std::to_string(response.job()));
    response.set_name(known.ok() ? known->record().name() : std::to_string(response.job()));
  }
  Report(session, arguments, response);
  fflush(stdout);
  if (arguments.Has("follow")) {
    return FollowNewJob(session, response, arguments.Has("propagate"), !arguments.Has("no-fold"));
  }
  if (arguments.Has("wait"))
    return AwaitEnd(session, *connection, response.name(), arguments.Has("propagate"));
  return kExitOk;
}

absl::StatusOr<int> Validate(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const v1::JobSpec spec, BuildSpec(session, arguments));
  if (arguments.Has("output")) {
    RecordFields fields;
    fields.Add("file", arguments.words()[0]).Add("layout", job::DescribeShape(spec.shape()));
    fields.AddTexts("command", {spec.command().begin(), spec.command().end()});
    ASSIGN_OR_RETURN(const std::string text,
                     RecordText("ValidJobFile", fields, arguments.Get("output")));
    session.Print(text);
    return kExitOk;
  }
  std::string command;
  for (const std::string& word : spec.command())
    common::StrAppend(&command, command.empty() ? "" : " ", ShellQuote(word));
  session.Print(StrCat(arguments.words()[0], ": ok: ", job::DescribeShape(spec.shape()), ": ",
                       common::Printable(command), "\n"));
  return kExitOk;
}

}  // namespace

const Command kSubmitCommand = {
    .name = "submit",
    .place = 20,
    .summary = "queue a job file, an sbatch script or a command and exit",
    .arguments = "FILE | SCRIPT [ARG…] | -- CMD…",
    .least = 0,
    .most = -1,
    .flags = kSubmitFlags,
    .rest = true,
    .completes = "file",
    .examples =
        "jobctl submit train.yaml\tqueue a job file (docs/jobfile.md)\n"
        "jobctl submit train.yaml --set env.LR=0.01 --follow\twith one change, showing the output\n"
        "jobctl submit job.sbatch\tan sbatch script; refused where it would mean something else "
        "here\n"
        "jobctl submit job.sbatch --ignore array 7\twithout its --array, and with an argument\n"
        "jobctl submit -n 4 -- torchrun train.py\ta command; launcher command lines work too\n"
        "job=$(jobctl submit -o name train.yaml)\tfor scripts",
    .run = Submit};

const Command kValidateCommand = {
    .name = "validate",
    .place = 50,
    .summary = "check a job file: report all errors at once",
    .arguments = "FILE | SCRIPT [ARG…]",
    .least = 1,
    .most = -1,
    .flags = kValidateFlags,
    .rest = true,
    .completes = "file",
    .examples = "jobctl validate train.yaml\twhat is wrong, where, and how to fix it",
    .run = Validate};

}  // namespace muster::client
