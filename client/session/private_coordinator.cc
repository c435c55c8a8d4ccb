#include "client/session/private_coordinator.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <vector>

#include "client/command_line/errors.h"
#include "client/connection/socket_trust.h"
#include "common/base/status.h"
#include "common/kernel/process_start.h"
#include "common/problem.h"
#include "common/status_wire.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;
using std::chrono::steady_clock;

// Replaying a large journal after a crash takes a while; a healthy start takes about 30 ms.
constexpr auto kStartLimit = std::chrono::seconds(30);
constexpr int kExitLostTheRace = 3;
constexpr auto kNextStart = std::chrono::milliseconds(100);  // after a lost race
constexpr int kPauseMsMax = 10;
constexpr size_t kReportBytesMax = 8 * 1024;
constexpr int kReportFd = 3;  // in the coordinator

std::string LastLines(const std::string& path) {
  const absl::StatusOr<std::string> log = common::ReadFile(path);
  if (!log.ok()) return "";
  size_t begin = log->size();
  for (int lines = 0; lines < 6 && begin > 0; ++lines) {
    const size_t newline = log->rfind('\n', begin - 1 - (begin == log->size() ? 1 : 0));
    begin = newline == std::string::npos ? 0 : newline;
  }
  std::string tail = log->substr(begin);
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  return tail;
}

// `report`: the coordinator's error, a StatusDetails, which its log does not have if the disk is full.
absl::Status StartFailed(std::string_view what, const std::string& log_path,
                         const std::string& report = "") {
  const absl::Status said =
      common::FromWire({.code = absl::StatusCode::kUnavailable, .message = "", .details = report});
  if (!said.message().empty()) {
    common::Problem problem = common::ProblemOf(said);
    problem.what = StrCat("the private coordinator did not start: ", problem.what);
    if (problem.fix.empty()) problem.fix = StrCat("less ", log_path);
    if (problem.code.empty()) problem.code = "JC1303";
    return common::MakeProblem(said.code(), std::move(problem));
  }
  const std::string tail = LastLines(log_path);
  return common::MakeProblem(absl::StatusCode::kUnavailable,
                             {.code = "JC1303",
                              .what = StrCat("the private coordinator ", what,
                                             tail.empty() ? "" : "; the end of its log:", tail),
                              .fix = StrCat("less ", log_path)});
}

// Reads what was written before the other end was closed. Never waits.
std::string ReadReport(int fd) {
  std::string report(kReportBytesMax, '\0');
  const ssize_t count = read(fd, report.data(), report.size());
  report.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return report;
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  const std::string path(self, length > 0 ? length : 0);
  const std::string directory = path.substr(0, path.rfind('/'));
  for (const std::string& candidate :
       {StrCat(directory, "/", name), StrCat(directory, "/../libexec/muster/", name)}) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1305",
                              .what = StrCat(name, " is neither in ", directory, " nor in ",
                                             directory, "/../libexec/muster"),
                              .fix = "install all Muster programs in the same directory"});
}

PrivateCoordinator::PrivateCoordinator(std::string runtime_dir, std::string data_dir)
    : runtime_dir_(std::move(runtime_dir)), data_dir_(std::move(data_dir)) {
  char here[PATH_MAX];
  const std::string prefix = getcwd(here, sizeof(here)) == nullptr ? "" : StrCat(here, "/");
  if (runtime_dir_[0] != '/') runtime_dir_ = prefix + runtime_dir_;
  if (data_dir_[0] != '/') data_dir_ = prefix + data_dir_;
}

bool PrivateCoordinator::Running() const {
  const std::string path = socket_path();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const common::UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

bool PrivateCoordinator::HasData() const {
  return common::Exists(data_dir_ + "/coordinator/muster.db");
}

absl::Status PrivateCoordinator::MakeDirectories() const {
  if (socket_path().size() >= sizeof(sockaddr_un::sun_path)) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1304",
         .what = StrCat("the socket's path ", socket_path(), " is longer than ",
                        sizeof(sockaddr_un::sun_path) - 1, " bytes"),
         .fix = "export JOBCTL_RUNTIME_DIR=/tmp/muster-$USER"});
  }
  for (const std::string& directory :
       {runtime_dir_, data_dir_ + "/coordinator", data_dir_ + "/worker"}) {
    const absl::Status made = common::MakeDirectories(directory);
    if (absl::IsResourceExhausted(made)) {
      return common::MakeProblem(
          absl::StatusCode::kUnavailable,
          {.code = "JC1605",
           .what = "the disk is full",
           .why = std::string(made.message()),
           .fix = StrCat("free space or inodes (df -h, df -i) on the disk of ", directory,
                         ", or set JOBCTL_DATA_DIR to another disk")});
    }
    if (!made.ok()) {
      return common::MakeProblem(
          absl::StatusCode::kInternal,
          {.code = "JC1601",
           .what = std::string(made.message()),
           .fix = StrCat("ls -ld ", directory, "; or set JOBCTL_DATA_DIR and JOBCTL_RUNTIME_DIR")});
    }
  }
  return CheckPrivateDirectory(runtime_dir_);
}

absl::StatusOr<int> PrivateCoordinator::Spawn(common::UniqueFd* report) const {
  ASSIGN_OR_RETURN(const std::string program, FindProgram("muster-coordinator"));
  const std::vector<std::string> words = {program,
                                          "--private",
                                          "--http",
                                          "127.0.0.1:0",
                                          "--socket",
                                          socket_path(),
                                          "--data-dir",
                                          data_dir_ + "/coordinator",
                                          "--worker-state-dir",
                                          data_dir_ + "/worker",
                                          "--report-fd",
                                          std::to_string(kReportFd)};
  common::Pipe pipe;
  if (!pipe.Open(O_NONBLOCK)) return common::ErrnoStatus("cannot make a pipe");
  *report = std::move(pipe.from);
  // Its working directory must not keep a file system busy.
  const pid_t pid = common::StartProcess(
      {.program = program,
       .argv = words,
       .directory = data_dir_,
       .fds = {common::NoInput(),
               {.as = STDOUT_FILENO, .file = log_path(), .flags = O_WRONLY | O_CREAT | O_APPEND},
               {.as = STDERR_FILENO, .same_as = STDOUT_FILENO},
               {.as = kReportFd, .ours = pipe.to.get()}},
       .closes_rest = true});
  if (pid < 0) return StartFailed(StrCat("could not be started: ", strerror(-pid)), log_path());
  return pid;
}

absl::Status PrivateCoordinator::Start() const {
  common::UniqueFd report;
  ASSIGN_OR_RETURN(int pid, Spawn(&report));
  const auto deadline = steady_clock::now() + kStartLimit;
  int pause_ms = 1;
  bool is_said = false;
  auto again_at = steady_clock::time_point::max();
  while (!Running()) {
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, WNOHANG) == pid) {
      // Lost the race for the data directory: to a coordinator that was started by hand, whose
      // socket will answer, or to one that is just exiting, whose socket never will.
      if (!WIFEXITED(status) || WEXITSTATUS(status) != kExitLostTheRace) {
        return StartFailed(WIFEXITED(status) ? StrCat("exited with code ", WEXITSTATUS(status))
                                             : StrCat("was killed by signal ", WTERMSIG(status)),
                           log_path(), ReadReport(report.get()));
      }
      pid = 0;
      again_at = steady_clock::now() + kNextStart;
    }
    if (pid == 0 && steady_clock::now() > again_at) {
      ASSIGN_OR_RETURN(pid, Spawn(&report));
      is_said = false;
    }
    if (steady_clock::now() > deadline)
      return StartFailed("did not answer within 30 s", log_path());
    // A coordinator that has started, or failed, closes its end of the pipe.
    pollfd started{is_said ? -1 : report.get(), POLLIN, 0};
    is_said |= poll(&started, 1, pause_ms) > 0;
    pause_ms = std::min(pause_ms * 2, kPauseMsMax);
  }
  return absl::OkStatus();
}

absl::Status PrivateCoordinator::Ensure() {
  struct stat info {};
  if (lstat(runtime_dir_.c_str(), &info) == 0) {
    RETURN_IF_ERROR(CheckPrivateSocket(runtime_dir_, socket_path()));
    if (Running()) return absl::OkStatus();
  }
  RETURN_IF_ERROR(MakeDirectories());
  const std::string lock_path = runtime_dir_ + "/starting";
  const common::UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  // Waits for the other starter; the kernel releases the lock if that one dies.
  while (lock.valid() && flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  if (Running()) return absl::OkStatus();
  RETURN_IF_ERROR(Start());
  return CheckPrivateSocket(runtime_dir_, socket_path());
}

void PrivateCoordinator::Watch(int pid) {
  if (pid > 0) process_ = common::UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool PrivateCoordinator::WaitForEnd(int milliseconds) {
  if (!process_.valid()) return true;
  pollfd waited{process_.get(), POLLIN, 0};
  const bool gone = poll(&waited, 1, milliseconds) > 0;
  // Reaps it if it is our child, so that no zombie is left in a container without an init.
  siginfo_t info{};
  if (gone) waitid(static_cast<idtype_t>(P_PIDFD), process_.get(), &info, WEXITED | WNOHANG);
  return gone;
}

}  // namespace muster::client
