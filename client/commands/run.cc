// jobctl run: an attached job, or with --detach one that runs on its own.
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
#include "client/terminal/signals.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

constexpr auto kRunFlags = WithJobFlags<kForRun>({
    {"detach", 0, "", "print the job's name and exit; the job keeps running"},
    {"raw", 0, "", "the ranks' exact bytes, without a prefix"},
    {"no-fold", 0, "", "on a terminal, show equal lines of several ranks one by one, as in a pipe"},
});

absl::StatusOr<int> Detach(Session& session, const v1::SubmitRequest& request) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  const absl::StatusOr<v1::SubmitResponse> response = connection->Submit(request);
  if (!response.ok()) return ExplainRefusal(response.status(), request.spec(), *connection);
  session.Print(common::StrCat(response->name(), "\n"));
  session.Note(common::StrCat("next: jobctl logs -f ", response->name(), "   jobctl cancel ",
                              response->name()));
  return kExitOk;
}

absl::StatusOr<int> Run(Session& session, const Arguments& arguments) {
  if (!arguments.has_rest()) {
    return Usage("JC1004", "there is no command to run", "jobctl run -n 2 -- python train.py");
  }
  // Counting devices for a launcher's command line opens the connection; an upload handles Ctrl-C.
  WatchSignals();
  if (!arguments.Has("detach")) SubmitInterruptibly(session);
  ASSIGN_OR_RETURN(Submission submission, BuildSubmission(session, arguments));
  RETURN_IF_ERROR(AwaitNodesFor(session, submission.spec));
  RETURN_IF_ERROR(SendCode(session, submission.code, &submission.spec));
  v1::SubmitRequest request;
  *request.mutable_spec() = std::move(submission.spec);
  request.set_idempotency_key(session.idempotency_key());
  request.set_queue_anyway(arguments.Has("queue-anyway"));
  if (arguments.Has("detach")) return Detach(session, request);
  LogPrinter::Options options;
  options.raw = arguments.Has("raw");
  options.split_streams = true;
  if (!options.raw && !arguments.Has("no-fold")) {
    options.fold_ranks = 1;  // until the attempt's ranks are known
  }
  return RunAttached(session, request, options);
}

}  // namespace

const Command kRunCommand = {
    .name = "run",
    .place = 10,
    .summary = "run a command as N ranks and show their output",
    .arguments = "-- CMD…",
    .least = 0,
    .most = 0,
    .flags = kRunFlags,
    .rest = true,
    .rest_without_dashes = true,
    .completes = "file",
    .examples =
        "jobctl run -n 2 -- python train.py\ttwo ranks on this machine\n"
        "jobctl run -n 8 --devices gpu --restarts 3 -- ./train --lr 0.1\ton GPUs, up to three "
        "restarts\n"
        "jobctl run -- torchrun --nproc-per-node 2 train.py\ta torchrun command line, unchanged\n"
        "jobctl run -- accelerate launch --num_processes 2 train.py\tan accelerate command line, "
        "unchanged\n"
        "jobctl run --sync -n 8 -- python train.py\tsend this directory to the nodes first",
    .notes =
        "Returns the first failing rank's exit code, or 128 + its signal. Ctrl-C, a\n"
        "closed terminal or a dropped ssh connection stop the job; Ctrl-C twice kills it.\n"
        "With --detach it keeps running. Without a configured context the job runs on a\n"
        "private coordinator on this machine, started on demand.",
    .run = Run};

}  // namespace muster::client
