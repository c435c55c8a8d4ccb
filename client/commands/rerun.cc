// jobctl rerun.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/follow/follow.h"
#include "client/follow/refusal.h"
#include "client/session/session.h"
#include "common/base/status.h"
#include "common/job/labels.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kRerunFlags[] = {
    {"from",
     0,
     "STEP",
     "start from the old job's checkpoint: last, or a step (default: from the beginning)",
     {},
     "step"},
    {"label", 'l', "K=V",
     "a label in addition to the old job's, or in its place; K-: without the old job's K; may be "
     "repeated"},
    {"follow", 'f', "", "show the output until the job is over; Ctrl-C detaches"},
    {"no-fold", 0, "", "with --follow on a terminal: show equal lines of several ranks one by one"},
    {"propagate", 0, "", "with --follow: return the failing rank's code"},
    {"output", 'o', "FORMAT", "name: only the new name; json", "name|json"},
};

absl::Status ChangeLabels(const std::vector<std::string>& changes, v1::RerunJobRequest* request) {
  for (const std::string& change : changes) {
    if (change.ends_with('-') && change.find('=') == std::string::npos) {
      request->add_dropped_labels(change.substr(0, change.size() - 1));
      continue;
    }
    ASSIGN_OR_RETURN(auto label, job::ParseLabel(change));
    (*request->mutable_labels())[std::move(label.first)] = std::move(label.second);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Rerun(Session& session, const Arguments& arguments) {
  v1::RerunJobRequest request;
  RETURN_IF_ERROR(ChangeLabels(arguments.All("label"), &request));
  request.set_job(arguments.words()[0]);
  request.set_idempotency_key(session.idempotency_key());
  if (arguments.Has("from")) {
    request.set_from_checkpoint(true);
    request.set_step(-1);
    if (arguments.Get("from") != "last") {
      const absl::StatusOr<int64_t> step = common::ParseInteger(arguments.Get("from"));
      if (!step.ok() || *step < 0) {
        return Usage("JC1004",
                     StrCat("--from must be last or a step, not \"", arguments.Get("from"), "\""),
                     StrCat("jobctl ckpt ls ", arguments.words()[0]));
      }
      request.set_step(*step);
    }
  }
  if (arguments.Has("follow")) SubmitInterruptibly(session);
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  // The actual name: @last refers to the new job by now.
  ASSIGN_OR_RETURN(const v1::GetJobResponse old, connection->GetJob(request.job()));
  request.set_job(std::to_string(old.record().id()));
  const absl::StatusOr<v1::SubmitResponse> answer = connection->RerunJob(request);
  if (!answer.ok()) return ExplainRefusal(answer.status(), old.record().spec(), *connection);
  const v1::SubmitResponse& response = *answer;
  if (arguments.Get("output") == "name") {
    session.Print(response.name() + "\n");
  } else if (arguments.Get("output") == "json") {
    session.Print(common::JsonObject::OfKind("SubmittedJob")
                      .Add("job", response.job())
                      .Add("name", response.name())
                      .Add("rerun_of", old.record().id())
                      .Line());
  } else {
    const std::string from = arguments.Get("from");
    session.Print(StrCat(response.name(), " repeats ", old.record().name(),
                         from.empty()     ? ""
                         : from == "last" ? " from its last checkpoint"
                                          : StrCat(" from step ", from),
                         "\n"));
    session.Note(StrCat("next: jobctl logs -f ", response.name()));
  }
  if (!arguments.Has("follow")) return kExitOk;
  return FollowNewJob(session, response, arguments.Has("propagate"), !arguments.Has("no-fold"));
}

}  // namespace

const Command kRerunCommand = {
    .name = "rerun",
    .place = 280,
    .summary = "start a new job with the spec of an old one",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kRerunFlags,
    .completes = "job",
    .examples =
        "jobctl rerun calm-otter-3\tfrom the beginning\n"
        "jobctl rerun calm-otter-3 --from last -f\tfrom its newest checkpoint, showing the output",
    .run = Rerun};

}  // namespace muster::client
