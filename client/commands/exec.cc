// jobctl exec and attach: a person and what runs.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/connection/exec_call.h"
#include "client/files/exec_pump.h"
#include "client/follow/follow.h"
#include "client/session/job_parts.h"
#include "client/session/session.h"
#include "client/terminal/raw_terminal.h"
#include "client/terminal/signals.h"
#include "client/text/record_text.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr uint64_t kAttachLines = 10;
constexpr int kSignalExit = 128;

constexpr Flag kExecFlags[] = {
    {"rank", 0, "R", "in the place of this rank (0)"},
    {"stdin", 'i', "", "send standard input to the command"},
    {"tty", 't', "", "give the command a terminal; with -i, every key goes to it"},
};

void WriteAllTo(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = write(fd, bytes.data() + at, bytes.size() - at);
    if (count > 0) at += static_cast<size_t>(count);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return;
  }
}

// Its output, until its end.
std::optional<v1::ExecEnded> ShowOutput(ExecCall& call) {
  std::optional<v1::ExecEnded> ended;
  v1::ExecOutput message;
  while (call.Read(&message)) {
    if (message.has_ended()) ended = message.ended();
    WriteAllTo(STDOUT_FILENO, message.stdout());
    WriteAllTo(STDERR_FILENO, message.stderr());
  }
  return ended;
}

// Ctrl-C is for the command, but a second one, or another signal, ends jobctl; the coordinator then
// kills the command.
void PassSignals(RawTerminal& raw, ExecPump& pump) {
  HandleSignals([&raw, &pump](int number, int count) {
    if (number == SIGINT && count == 1) return pump.Signal(SIGINT);
    raw.Restore();
    _exit(kSignalExit + number);
  });
}

absl::StatusOr<v1::ExecStart> StartOf(const Arguments& arguments) {
  v1::ExecStart start;
  start.set_job(arguments.words()[0]);
  ASSIGN_OR_RETURN(const int64_t rank, arguments.Number("rank", 0, common::kRanksMax - 1, 0));
  start.set_rank(static_cast<uint32_t>(rank));
  start.set_stdin(arguments.Has("stdin"));
  if (arguments.Has("tty")) *start.mutable_terminal() = TerminalOfPerson();
  for (const std::string& word : arguments.rest()) start.add_command(word);
  if (start.command_size() == 0) {
    return Usage("JC1004", "there is no command", "jobctl exec JOB -- CMD");
  }
  if (arguments.Has("tty") && arguments.Has("stdin") && isatty(STDIN_FILENO) == 0) {
    return Usage("JC1004", "-i -t sends every key of a terminal, and standard input is not one",
                 "leave -t out");
  }
  return start;
}

absl::StatusOr<int> Exec(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const v1::ExecStart start, StartOf(arguments));
  HoldWindowSignals();
  WatchSignals();
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  session.DoNotRepeat();
  const std::unique_ptr<ExecCall> call = connection->Exec(start);
  std::optional<v1::ExecEnded> ended;
  absl::Status status;
  {
    const bool takes_keys = start.stdin() && start.has_terminal();
    RawTerminal raw(takes_keys ? STDIN_FILENO : -1);
    ExecPump pump(*call, {.input = start.stdin(), .window = start.has_terminal()});
    PassSignals(raw, pump);
    ended = ShowOutput(*call);
    status = call->Finish();
    HandleSignals([](int number, int) { _exit(kSignalExit + number); });
  }
  if (!ended.has_value()) {
    RETURN_IF_ERROR(status);
    return common::MakeProblem(absl::StatusCode::kUnavailable,
                               {.code = "JC1307",
                                .what = "the stream ended before the command",
                                .fix = StrCat("jobctl show ", start.job())});
  }
  if (!ended->problem().empty())
    session.Note(StrCat("jobctl: ", common::Printable(ended->problem())));
  return ended->signal() > 0 ? kSignalExit + static_cast<int>(ended->signal()) : ended->exit_code();
}

absl::StatusOr<int> Attach(Session& session, const Arguments& arguments) {
  WatchSignals();
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, connection->GetJob(arguments.words()[0]));
  const v1::JobRecord& record = response.record();
  if (IsOver(record.state())) {
    return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                               {.code = "JC1203",
                                .what = StrCat("job ", record.name(), " is over"),
                                .fix = StrCat("jobctl logs ", record.name())});
  }
  v1::StreamLogsRequest request;
  request.set_job(std::to_string(record.id()));
  request.set_follow(true);
  request.set_attempt(-1);
  request.set_tail_lines(kAttachLines);
  LogPrinter::Options options;
  options.fold_ranks = std::max<size_t>(1, RanksShown(record, request));
  DetachFrom(session, record.name(), "attach");
  session.Note(StrCat("attached to ", record.name(), "; Ctrl-C detaches and leaves it running"));
  return FollowJob(session, request, options, /*propagate=*/true);
}

}  // namespace

const Command kExecCommand = {
    .name = "exec",
    .place = 300,
    .summary = "run a command in the place of a running rank",
    .arguments = "JOB -- CMD…",
    .least = 1,
    .most = 1,
    .flags = kExecFlags,
    .rest = true,
    .completes = "job",
    .examples =
        "jobctl exec calm-otter-3 -- nvidia-smi\tas rank 0's account, in its directory, with its "
        "environment and limits\n"
        "jobctl exec -it calm-otter-3 --rank 3 -- bash\ta shell beside rank 3\n"
        "jobctl exec -i calm-otter-3 -- tar x < patch.tar\twith standard input",
    .notes =
        "Only for the job's owner. The command is killed when jobctl exits or the rank's\n"
        "attempt ends. Exits with the command's exit code, or 128 and the signal that\n"
        "killed it. Without -t the command gets the first Ctrl-C; a second ends jobctl.",
    .run = Exec};

const Command kAttachCommand = {
    .name = "attach",
    .place = 310,
    .summary = "follow a job's output until its end, as jobctl run does",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .completes = "job",
    .examples = "jobctl attach calm-otter-3\tits last lines and all that follows; Ctrl-C detaches",
    .notes =
        "Exits with the job's exit code. Ctrl-C leaves the job running; `jobctl cancel`\n"
        "stops it.",
    .run = Attach};

}  // namespace muster::client
