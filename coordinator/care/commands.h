// The maintenance commands of muster-coordinator: they work on a data directory and exit, without
// serving. Each has a row in the table in commands.cc and its own file, care/<name>_command.cc.
#pragma once

#include <optional>
#include <string>

namespace muster::coordinator {

struct CareArguments {
  std::string data_dir;
  std::string to;
  std::string from;
  bool quick = false;
};

inline constexpr int kCleanExit = 0;
inline constexpr int kFindingsExit = 1;
inline constexpr int kUsageExit = 2;
inline constexpr int kLockedExit = 3;
inline constexpr int kNotDoneExit = 4;

int RunCheck(const CareArguments& arguments);
int RunRepair(const CareArguments& arguments);
int RunBackup(const CareArguments& arguments);
int RunRestore(const CareArguments& arguments);

// Runs the command and returns its exit status. nullopt: the first word is not one of them.
std::optional<int> RunCareCommand(int argc, char** argv);
// For --help: one line per command.
std::string CareCommandsHelp();

}  // namespace muster::coordinator
