// jobctl wait.
#include <algorithm>
#include <chrono>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/follow/follow.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/terminal/signals.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kWaitFlags[] = {
    {"for",
     0,
     "WHAT",
     "done, running, checkpoint, or step=N (a checkpoint of step N or later)",
     {},
     "done|running|checkpoint|step="},
    {"timeout", 0, "TIME", "give up after this; exit code 101 (default: never)"},
    {"propagate", 0, "", "return the failing rank's code"},
    {"output", 'o', "FORMAT", "the jobs as json, jsonl, yaml or csv, at the end",
     "json|jsonl|yaml|csv"},
};

struct Goal {
  enum Kind { kDone, kRunning, kCheckpoint } kind = kDone;
  int64_t step = 0;
};

absl::StatusOr<Goal> ParseGoal(const std::string& text) {
  if (text.empty() || text == "done") return Goal{};
  if (text == "running") return Goal{Goal::kRunning, 0};
  if (text == "checkpoint") return Goal{Goal::kCheckpoint, 0};
  if (text.starts_with("step=")) {
    const absl::StatusOr<int64_t> step = common::ParseInteger(text.substr(5));
    if (step.ok() && *step >= 0) return Goal{Goal::kCheckpoint, *step};
  }
  return Usage("JC1004",
               StrCat("--for must be done, running, checkpoint or step=N, not \"", text, "\""),
               "jobctl wait JOB --for running");
}

bool Reached(const Goal& goal, const v1::JobRecord& record) {
  switch (goal.kind) {
    case Goal::kDone:
      return IsOver(record.state());
    case Goal::kRunning:
      return record.state() == v1::JOB_STATE_RUNNING || record.first_running_ms() > 0;
    case Goal::kCheckpoint:
      for (const v1::Checkpoint& checkpoint : record.checkpoints()) {
        if (checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED && checkpoint.step() >= goal.step)
          return true;
      }
      return false;
  }
  return false;
}

// The record once the goal is reached or the job is over; `name` is set as soon as the job's name
// is known.
absl::StatusOr<v1::JobRecord> Await(Session& session, const std::string& job, const Goal& goal,
                                    int64_t left_ms, std::string* name) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse found, connection->GetJob(job));
  v1::JobRecord record = found.record();
  *name = record.name();
  if (!IsAtRest(record)) DetachFrom(session, *name, "wait");
  v1::WatchJobRequest request;
  // @last may be a different job when the connection is reopened.
  request.set_job(std::to_string(record.id()));
  while (true) {
    const absl::Status status =
        connection->WatchJob(request, left_ms, [&](const v1::JobUpdate& update) {
          record = update.record();
          return !Reached(goal, record) && !IsAtRest(record);
        });
    if (status.code() == absl::StatusCode::kUnavailable) {
      ASSIGN_OR_RETURN(connection, Reconnect(session, status));
      continue;
    }
    RETURN_IF_ERROR(status);
    return record;
  }
}

// Prints a job's result: at once, or in formats for programs together with the others at the end.
void TellWaited(Session& session, const Arguments& arguments, const v1::JobRecord& record,
                Listing* listing) {
  if (arguments.Has("output")) {
    Cell exit_code;
    if (IsOver(record.state())) exit_code = Cell(int64_t{record.exit_code()});
    listing->rows.push_back({Cell(record.name()), Cell(static_cast<int64_t>(record.id())),
                             Cell(StateName(record.state())), exit_code, Cell(record.reason())});
    return;
  }
  std::string reason =
      record.reason().empty() ? "" : StrCat(" (", common::Printable(record.reason()), ")");
  if (record.state() == v1::JOB_STATE_SUCCEEDED) reason.clear();
  session.Print(StrCat(record.name(), " ", StateName(record.state()), reason, "\n"));
}

absl::StatusOr<int> WaitForAll(Session& session, const Arguments& arguments, Listing* listing) {
  ASSIGN_OR_RETURN(const Goal goal, ParseGoal(arguments.Get("for")));
  ASSIGN_OR_RETURN(const int64_t timeout_ms, arguments.DurationMs("timeout", 0));
  WatchSignals();
  const auto begin = std::chrono::steady_clock::now();
  int worst = kExitOk;
  for (const std::string& job : arguments.words()) {
    const int64_t passed_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::steady_clock::now() - begin)
                                  .count();
    const int64_t left_ms =
        arguments.Has("timeout") ? std::max<int64_t>(1, timeout_ms - passed_ms) : 0;
    std::string name = job;
    const absl::StatusOr<v1::JobRecord> record = Await(session, job, goal, left_ms, &name);
    if (record.status().code() == absl::StatusCode::kDeadlineExceeded) {
      fflush(stdout);
      fputs(
          FormatError(common::MakeProblem(
                          absl::StatusCode::kDeadlineExceeded,
                          {.code = "JC1206",
                           .what = StrCat("job ", name, " did not reach it within ",
                                          common::HumanDuration(timeout_ms), "; it keeps running"),
                           .fix = StrCat("jobctl why ", name)}),
                      session.terminal().color_err)
              .c_str(),
          stderr);
      return kExitWaitTimedOut;
    }
    RETURN_IF_ERROR(record.status());
    const bool over = IsAtRest(*record);
    TellWaited(session, arguments, *record, listing);
    if (over) {
      const int code = WaitExitCode(*record, arguments.Has("propagate"));
      if (code == kExitOk && !Reached(goal, *record)) {
        return common::MakeProblem(
            absl::StatusCode::kFailedPrecondition,
            {.code = "JC1207",
             .what = StrCat("job ", record->name(), " succeeded without ever reaching ",
                            arguments.Get("for")),
             .fix = StrCat("jobctl show ", record->name())});
      }
      worst = std::max(worst, code);
    }
  }
  return worst;
}

absl::StatusOr<int> Wait(Session& session, const Arguments& arguments) {
  Listing listing;
  listing.kind = "WaitList";
  listing.columns = {
      {.key = "job"}, {.key = "id"}, {.key = "state"}, {.key = "exit"}, {.key = "reason"}};
  const absl::StatusOr<int> code = WaitForAll(session, arguments, &listing);
  if (arguments.Has("output")) {
    ListingOptions options;
    options.output = arguments.Get("output");
    ASSIGN_OR_RETURN(const std::string text,
                     RenderListing(std::move(listing), options, session.terminal()));
    session.Print(text);
  }
  return code;
}

}  // namespace

const Command kWaitCommand = {
    .name = "wait",
    .place = 230,
    .summary = "wait until jobs are over, are running, or have a checkpoint",
    .arguments = "JOB…",
    .least = 1,
    .most = -1,
    .flags = kWaitFlags,
    .completes = "job",
    .examples =
        "jobctl wait calm-otter-3 && ./evaluate.sh\t0 succeeded, 100 failed, 103 cancelled, 104 "
        "held\n"
        "jobctl wait calm-otter-3 --for step=1000 --timeout 2h\t101 if it takes longer",
    .run = Wait};

}  // namespace muster::client
