// jobctl: parses the command line, runs the command's function and turns its status into output and
// an exit code.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/session/session.h"
#include "common/base/freed_memory.h"
#include "common/base/lock_checks.h"
#include "common/problem.h"

namespace muster::client {
namespace {

int Fail(const absl::Status& error, const Terminal& terminal) {
  fflush(stdout);
  fputs(FormatError(error, terminal.color_err).c_str(), stderr);
  return ExitCodeFor(error);
}

bool NeedsSettings(const Arguments& arguments) {
  const Command& command = arguments.command();
  return command.needs_settings &&
         (command.needs_none_with.empty() || !arguments.Has(command.needs_none_with));
}

int Main(const std::vector<std::string>& line) {
  const absl::StatusOr<Arguments> arguments = Arguments::Parse(line);
  if (!arguments.ok()) return Fail(arguments.status(), DetectTerminal("auto"));
  // gRPC prints messages of its own to stderr; people get ours unless they ask for gRPC's.
  setenv("GRPC_VERBOSITY", arguments->Has("debug") ? "DEBUG" : "NONE",
         arguments->Has("debug") ? 1 : 0);
  absl::StatusOr<Settings> settings = Settings::Resolve(*arguments);
  if (!settings.ok() && !NeedsSettings(*arguments)) settings = Settings();
  if (!settings.ok())
    return Fail(settings.status(), DetectTerminal(arguments->Get("color", "auto")));
  const Terminal terminal = DetectTerminal(settings->Get("color"));
  Session session(terminal, *std::move(settings), *arguments);
  absl::StatusOr<int> code = arguments->command().run(session, *arguments);
  // The private coordinator may exit between two of our requests; the next one then restarts it.
  constexpr int kTries = 3;
  for (int i = 1; i < kTries && session.is_private() && session.may_repeat() &&
                  code.status().code() == absl::StatusCode::kUnavailable &&
                  common::CodeOf(code.status()) == "JC1301";
       ++i) {
    session.Disconnect();
    usleep(50'000);
    code = arguments->command().run(session, *arguments);
  }
  const int result = code.ok() ? *code : Fail(code.status(), terminal);
  const bool written = fflush(stdout) == 0;
  session.Leave();
  if (!written) {
    perror("error: stdout cannot be written");
    return kExitFailed;
  }
  return result;
}

}  // namespace
}  // namespace muster::client

int main(int argc, char** argv) {
  muster::common::KeepFreedMemory();
  muster::common::LeaveOutLockChecks();
  const int code = muster::client::Main(std::vector<std::string>(argv + 1, argv + argc));
  // Nothing is left to save: gRPC's threads need no graceful shutdown.
  fflush(stderr);
  _exit(code);
}
