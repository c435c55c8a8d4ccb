#include "coordinator/care/commands.h"

#include <signal.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>

#include "absl/strings/str_format.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

struct CareCommand {
  const char* name;
  const char* summary;
  // Its option besides --data-dir, and where the value goes.
  const char* option;
  const char* option_help;
  std::string CareArguments::*value;  // null: the option is a switch
  int (*run)(const CareArguments&);
};

constexpr CareCommand kCareCommands[] = {
    {"check", "read all of a stopped coordinator's data and list what is damaged", "--quick",
     "check only the sizes of checkpoint files", nullptr, RunCheck},
    {"repair", "fix what can be fixed without losing data", "", "", nullptr, RunRepair},
    {"backup", "copy the data directory; its coordinator may run", "--to",
     "directory of the backup; use the same one every time", &CareArguments::to, RunBackup},
    {"restore", "create a data directory from a backup", "--from", "directory of the backup",
     &CareArguments::from, RunRestore},
};

const CareCommand* FindCommand(std::string_view name) {
  for (const CareCommand& command : kCareCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

void AddOption(CLI::App& app, const CareCommand& command, CareArguments& arguments) {
  if (command.value != nullptr) {
    app.add_option(command.option, arguments.*command.value, command.option_help)->required();
  } else if (command.option[0] != '\0') {
    app.add_flag(command.option, arguments.quick, command.option_help);
  }
}

}  // namespace

std::optional<int> RunCareCommand(int argc, char** argv) {
  const CareCommand* command = argc > 1 ? FindCommand(argv[1]) : nullptr;
  if (command == nullptr) return std::nullopt;
  const std::string name = common::StrCat("muster-coordinator ", command->name);
  CareArguments arguments;
  CLI::App app(command->summary, name);
  app.add_option("--data-dir", arguments.data_dir, "the coordinator's data directory")->required();
  AddOption(app, *command, arguments);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return kCleanExit;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s\n  fix: %s --help lists its flags\n", name.c_str(), error.what(),
                 name.c_str());
    return kUsageExit;
  }
  umask(0077);
  // When a file may not grow (ulimit -f), the write fails with an error instead of a signal.
  signal(SIGXFSZ, SIG_IGN);
  return command->run(arguments);
}

std::string CareCommandsHelp() {
  std::string text =
      "Commands (without one, the coordinator serves; each has --help):\n"
      "  init     make a cluster whose members are known: authority, keys, first token\n"
      "  migrate  move the state of a stopped coordinator into etcd, or back\n";
  for (const CareCommand& command : kCareCommands) {
    absl::StrAppendFormat(&text, "  %-8s %s\n", command.name, command.summary);
  }
  return text;
}

}  // namespace muster::coordinator
