// py_spy: PATH, the directories of programs, and two processes' rights side by side.
#include "worker/inspection/py_spy.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/files/plain_files.h"
#include "common/kernel/process.h"
#include "common/text/strings.h"
#include "worker/sampling/descriptors.h"

namespace muster::worker {
namespace {

using common::StrCat;
using std::filesystem::path;

constexpr size_t kSmallFileBytes = 64 * 1024;
constexpr char kName[] = "py-spy";

void AddPath(std::string_view variable, std::vector<path>* directories) {
  for (const absl::string_view directory : absl::StrSplit(common::ToAbsl(variable), ':')) {
    directories->push_back(path(common::FromAbsl(directory)));
  }
}

// A relative directory means a different place for this process than for that one.
std::string FirstWithPySpy(const std::vector<path>& directories) {
  for (const path& directory : directories) {
    const path candidate = directory / kName;
    if (candidate.is_absolute() && access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return "";
}

std::string ProcFile(const std::string& process, const char* file) {
  std::string content;
  common::ReadSmallFile(StrCat("/proc/", process, "/", file), &content, kSmallFileBytes);
  return content;
}

std::vector<path> WorkersDirectories() {
  std::vector<path> directories;
  if (const char* variable = getenv("PATH")) AddPath(variable, &directories);
  directories.push_back(path(LinkTarget("/proc/self/exe")).parent_path());
  return directories;
}

// A virtual environment's interpreter is a link out of it: only the path that it was started with shows
// the environment.
std::vector<path> DirectoriesOf(pid_t process) {
  const std::string number = std::to_string(process);
  const std::string started_as = ProcFile(number, "cmdline").c_str();  // up to the first zero byte
  std::vector<path> directories = {
      path(started_as).parent_path(),
      path(LinkTarget(StrCat("/proc/", number, "/exe"))).parent_path(),
      path(common::EnvironValue(process, "VIRTUAL_ENV")) / "bin",
  };
  AddPath(common::EnvironValue(process, "PATH"), &directories);
  directories.push_back(path(common::EnvironValue(process, "HOME")) / ".local/bin");
  return directories;
}

// Accounts, capabilities and filters; a sandbox or a container shows in at least one of them, or in the
// namespaces.
std::string Rights(const std::string& process) {
  std::string rights;
  const std::string status = ProcFile(process, "status");
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    for (const char* start : {"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp"}) {
      if (absl::StartsWith(line, start)) rights += StrCat(common::FromAbsl(line), "\n");
    }
  }
  for (const char* space : {"mnt", "pid", "user", "net"}) {
    rights += StrCat(LinkTarget(StrCat("/proc/", process, "/ns/", space)), "\n");
  }
  return rights;
}

}  // namespace

PySpy FindPySpy(pid_t process) {
  const std::string ours = FirstWithPySpy(WorkersDirectories());
  if (!ours.empty()) return {ours, ""};
  if (Rights(std::to_string(process)) != Rights("self")) {
    return {"",
            "the worker finds no py-spy on its PATH, and runs none of a rank that has another "
            "account or a sandbox; fix: pip install py-spy, as who installed the worker, into a "
            "directory of the worker's PATH"};
  }
  const std::string theirs = FirstWithPySpy(DirectoriesOf(process));
  if (!theirs.empty()) return {theirs, ""};
  return {"",
          "py-spy is neither on the worker's PATH nor beside the rank's Python; fix: pip install "
          "py-spy in the rank's environment (muster-train[stacks] brings it)"};
}

}  // namespace muster::worker
