// The part of launch_environment.h that inspects the host: interfaces, working directory, command.
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/launch/launch_environment.h"

namespace muster::worker {
namespace {

constexpr int kCheckExitNotExecutable = 126;
constexpr int kCheckExitMissing = 127;
constexpr size_t kInterpreterLineBytes = 256;  // the kernel reads no more

std::string_view ValueOf(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string_view entry : env) {
    if (entry.size() > name.size() && entry.substr(0, name.size()) == name &&
        entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

std::string Absolute(std::string_view workdir, std::string_view path) {
  if (!path.empty() && path[0] == '/') return std::string(path);
  return common::StrCat(workdir, "/", path);
}

// 0, or the errno that execve would return: for the file itself, not for its interpreter.
int ExecErrno(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// For "#!/no/such/python", execve returns ENOENT although the file itself exists. Empty: no
// interpreter is missing.
std::string MissingInterpreter(const std::string& path) {
  const absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_RDONLY);
  char bytes[kInterpreterLineBytes];
  const ssize_t count = file.ok() ? read(file->get(), bytes, sizeof bytes) : 0;
  std::string_view line(bytes, count > 0 ? static_cast<size_t>(count) : 0);
  line = line.substr(0, line.find('\n'));
  if (line.substr(0, 2) != "#!") return {};
  line.remove_prefix(2);
  while (!line.empty() && (line[0] == ' ' || line[0] == '\t')) line.remove_prefix(1);
  const std::string interpreter(line.substr(0, line.find_first_of(" \t")));
  // A script from Windows has "/bin/sh\r".
  return ExecErrno(interpreter) == 0 ? "" : interpreter;
}

bool IsPythonFile(std::string_view path) {
  return path.size() > 3 && path.substr(path.size() - 3) == ".py";
}

// "#!" or an ELF header: the kernel can execute the file.
bool HasFirstLine(const std::string& path) {
  const absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_RDONLY);
  char bytes[2] = {};
  if (!file.ok() || read(file->get(), bytes, sizeof bytes) != sizeof bytes) return false;
  return (bytes[0] == '#' && bytes[1] == '!') || (bytes[0] == 0x7f && bytes[1] == 'E');
}

// How to name a file in the working directory so that it runs; `error`: why it cannot be executed.
std::string HowToRun(const std::string& path, const std::string& name, int error) {
  if (IsPythonFile(name) && (error != 0 || !HasFirstLine(path))) {
    return common::StrCat("python ", name);
  }
  return error == 0 ? common::StrCat("./", name)
                    : common::StrCat("./", name, ", after chmod +x ", name);
}

std::optional<LaunchProblem> CheckWorkdir(const std::string& node, const std::string& workdir) {
  struct stat info {};
  int error = 0;
  if (workdir.empty() || workdir[0] != '/') {
    error = EINVAL;
  } else if (stat(workdir.c_str(), &info) != 0) {
    error = errno;
  } else if (!S_ISDIR(info.st_mode)) {
    error = ENOTDIR;
  } else if (faccessat(AT_FDCWD, workdir.c_str(), X_OK, AT_EACCESS) != 0) {
    error = errno;
  }
  if (error == 0) return std::nullopt;
  const std::string_view why = error == ENOENT   ? "does not exist"
                               : error == EINVAL ? "is not an absolute path"
                                                 : std::strerror(error);
  return LaunchProblem{
      error, kCheckExitNotExecutable,
      common::StrCat("node ", node, ": working directory ", workdir, ": ", why,
                     "; fix: create it on that node (a shared file system, or a copy), "
                     "or use another one with --workdir")};
}

LaunchProblem Missing(const std::string& node, const std::string& what, std::string_view where) {
  return {ENOENT, kCheckExitMissing,
          common::StrCat("node ", node, ": command '", what, "' was not found ", where,
                         "; fix: correct the command, or install it on that node")};
}

// The directory on the way to `path`, or to the target of its links, that this thread's account may not
// pass; empty: none.
std::string ClosedDirectoryOn(std::string path) {
  constexpr int kLinksMax = 16;
  for (int links = 0; links < kLinksMax; ++links) {
    for (size_t slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const std::string directory = path.substr(0, slash);
      const bool passes = faccessat(AT_FDCWD, directory.c_str(), X_OK, AT_EACCESS) == 0;
      if (!passes && errno == EACCES) return directory;
    }
    char target[PATH_MAX];
    const ssize_t size = readlink(path.c_str(), target, sizeof target);
    if (size <= 0) return {};
    path = Absolute(path.substr(0, path.rfind('/')),
                    std::string_view(target, static_cast<size_t>(size)));
  }
  return {};
}

LaunchProblem NotExecutable(const std::string& node, const std::string& path, int error) {
  const std::string closed = error == EACCES ? ClosedDirectoryOn(path) : "";
  if (!closed.empty()) {
    return {error, kCheckExitNotExecutable,
            common::StrCat(
                "node ", node, ": command ", path,
                " cannot be executed: the ranks' account may not pass the directory ", closed,
                "; fix: put the program where that account can reach it, or chmod o+x ", closed)};
  }
  const std::string fix = error == EISDIR       ? "give a program in it"
                          : !IsPythonFile(path) ? common::StrCat("chmod +x ", path)
                          : HasFirstLine(path)
                              ? common::StrCat("write python ", path, ", or chmod +x ", path)
                              : common::StrCat("write python ", path);
  return {error, kCheckExitNotExecutable,
          common::StrCat("node ", node, ": command ", path,
                         " cannot be executed: ", std::strerror(error), "; fix: ", fix)};
}

// Like execvp: a name with a slash is a path from workdir; others are searched for in PATH, and one
// that exists but is not executable is reported only if no later directory has it.
std::optional<LaunchProblem> Resolve(const std::string& node, common::RankLaunch* rank) {
  const std::string& name = rank->argv[0];
  std::string found;
  std::optional<LaunchProblem> denied;
  if (name.find('/') != std::string::npos) {
    const std::string path = Absolute(rank->workdir, name);
    const int error = ExecErrno(path);
    if (error == ENOENT || error == ENOTDIR) {
      return Missing(node, name, name[0] == '/' ? "there" : common::StrCat("in ", rank->workdir));
    }
    if (error != 0) return NotExecutable(node, path, error);
    found = path;
  } else {
    const std::string_view search = ValueOf(rank->env, "PATH");
    for (const std::string& directory :
         std::vector<std::string>(absl::StrSplit(common::ToAbsl(search), ':'))) {
      // An empty entry means the working directory.
      const std::string path = common::StrCat(
          Absolute(rank->workdir, directory.empty() ? "." : directory.c_str()), "/", name);
      const int error = ExecErrno(path);
      if (error == 0) {
        found = path;
        break;
      }
      if (error == EACCES && !denied.has_value()) denied = NotExecutable(node, path, error);
    }
    if (found.empty() && denied.has_value()) return denied;
    if (found.empty()) {
      LaunchProblem missing = Missing(node, name, common::StrCat("in PATH (", search, ")"));
      const std::string here = Absolute(rank->workdir, name);
      const int error = ExecErrno(here);
      if (error == 0 || error == EACCES) {
        missing.text = common::StrCat("node ", node, ": command '", name,
                                      "' was not found in PATH, but is in ", rank->workdir,
                                      "; fix: write ", HowToRun(here, name, error));
      }
      return missing;
    }
  }
  if (const std::string interpreter = MissingInterpreter(found); !interpreter.empty()) {
    return LaunchProblem{
        ENOENT, kCheckExitMissing,
        common::StrCat("node ", node, ": the interpreter '", interpreter, "' in the first line of ",
                       found, " was not found; fix: correct that line, or install it")};
  }
  if (IsPythonFile(found) && !HasFirstLine(found)) {
    return LaunchProblem{ENOEXEC, kCheckExitNotExecutable,
                         common::StrCat("node ", node, ": ", found,
                                        " has no #! line, so the system would run it in ",
                                        "/bin/sh; fix: write python ", name,
                                        ", or make #!/usr/bin/env python3 its first line")};
  }
  rank->program = std::move(found);
  return std::nullopt;
}

}  // namespace

std::vector<InterfaceAddress> ListInterfaceAddresses() {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    const void* binary = nullptr;
    if (entry->ifa_addr->sa_family == AF_INET) {
      binary = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      binary = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    } else {
      continue;
    }
    if (inet_ntop(entry->ifa_addr->sa_family, binary, text, sizeof text) != nullptr) {
      addresses.push_back({entry->ifa_name, text});
    }
  }
  freeifaddrs(list);
  return addresses;
}

std::optional<LaunchProblem> CheckLaunch(const std::string& node,
                                         std::vector<common::RankLaunch>* ranks) {
  std::map<std::string, std::string>
      resolved;  // argv[0] may differ per rank, but almost never does
  for (common::RankLaunch& rank : *ranks) {
    if (&rank == &ranks->front()) {
      if (auto problem = CheckWorkdir(node, rank.workdir)) return problem;
    }
    if (rank.argv.empty() || rank.argv[0].empty()) {
      return LaunchProblem{
          EINVAL, kCheckExitMissing,
          common::StrCat("node ", node, ": the job has an empty command; fix: give one after --")};
    }
    const auto known = resolved.find(rank.argv[0]);
    if (known != resolved.end()) {
      rank.program = known->second;
      continue;
    }
    if (auto problem = Resolve(node, &rank)) return problem;
    resolved[rank.argv[0]] = rank.program;
  }
  return std::nullopt;
}

}  // namespace muster::worker
