// jobctl rerun.
#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/follow.h"
#include "client/session.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kFlags[] = {
    {"from", 0, "STEP",
     "begin from the old job's checkpoint: last, or a step (default: from the beginning)"},
    {"follow", 'f', "", "show the output until the end; Ctrl-C detaches"},
    {"propagate", 0, "", "with --follow: return the failing rank's code"},
    {"output", 'o', "FORMAT", "name: the new name alone", "name"},
};

absl::StatusOr<int> Rerun(Session& session, const Arguments& arguments) {
  v1::RerunJobRequest request;
  request.set_job(arguments.words()[0]);
  request.set_idempotency_key(session.idempotency_key());
  if (arguments.Has("from")) {
    request.set_from_checkpoint(true);
    request.set_step(-1);
    if (arguments.Get("from") != "last") {
      const absl::StatusOr<int64_t> step = ParseInteger(arguments.Get("from"));
      if (!step.ok() || *step < 0) {
        return Usage("JC1004",
                     StrCat("--from takes last or a step, not \"", arguments.Get("from"), "\""),
                     StrCat("jobctl ckpt ls ", arguments.words()[0]));
      }
      request.set_step(*step);
    }
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::SubmitResponse response, connection->RerunJob(request));
  if (arguments.Get("output") == "name") {
    session.Print(response.name() + "\n");
  } else {
    const std::string from = arguments.Get("from");
    session.Print(StrCat(response.name(), " repeats ", arguments.words()[0],
                         from.empty()     ? ""
                         : from == "last" ? " from its last checkpoint"
                                          : StrCat(" from step ", from),
                         "\n"));
    session.Note(StrCat("next: jobctl logs -f ", response.name()));
  }
  if (!arguments.Has("follow")) return kExitOk;
  v1::StreamLogsRequest logs;
  logs.set_job(response.name());
  logs.set_follow(true);
  logs.set_attempt(-1);
  return FollowJob(session, logs, {}, arguments.Has("propagate"));
}

}  // namespace

const Command kRerunCommand = {
    .name = "rerun",
    .summary = "start a new job like an old one",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kFlags,
    .completes = "job",
    .examples =
        "jobctl rerun calm-otter-3\tfrom the beginning\n"
        "jobctl rerun calm-otter-3 --from last -f\tfrom its newest checkpoint, with its output",
    .run = Rerun};

}  // namespace muster::client
