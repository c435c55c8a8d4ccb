// The commands of muster-coordinator beside serving: they care for a data directory and end. A row
// of the table in commands.cc each, and a file care/<name>_command.cc.
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

// The exit status; nullopt: the first word names none of them.
std::optional<int> RunCareCommand(int argc, char** argv);
// For --help: a line each.
std::string CareCommandsHelp();

}  // namespace muster::coordinator
