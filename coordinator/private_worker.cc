#include "coordinator/private_worker.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>
#include <vector>

#include "common/files/files.h"
#include "common/kernel/process_start.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/base/machine_name.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::chrono::milliseconds kAlivePoll{100};
constexpr std::chrono::milliseconds kEndPoll{5};
constexpr std::chrono::seconds kEndWithin{2};  // its ranks outlive it
constexpr std::chrono::seconds kRespawnPause{1};

// The worker next to this program, or at the place where an installation puts it.
std::string WorkerProgram() {
  char self[PATH_MAX] = {};
  const ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  const std::string path(self, size > 0 ? static_cast<size_t>(size) : 0);
  const std::string directory = path.substr(0, path.rfind('/'));
  for (const std::string& candidate :
       {directory + "/muster-worker", directory + "/../libexec/muster/muster-worker"}) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return directory + "/muster-worker";
}

}  // namespace

PrivateWorker::PrivateWorker(std::string state_dir, std::string socket)
    : state_dir_(std::move(state_dir)), socket_(std::move(socket)) {}

void PrivateWorker::Start() {
  if (const absl::Status made = common::MakeDirectories(state_dir_); !made.ok()) {
    common::LogError(StrCat("cannot create the worker's directory reason=\"",
                            std::string(made.message()), "\""));
  }
  thread_ = std::thread([this] { Run(); });
}

void PrivateWorker::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (pid_ == 0) {
      const int holder = LockHolder(state_dir_ + "/LOCK");
      if (holder > 0) {
        pid_ = holder;
        is_child_ = false;
        common::LogInfo(StrCat("a worker is already running pid=", holder));
      } else if (const absl::Status status = Spawn(); !status.ok()) {
        common::LogError(
            StrCat("cannot start the worker reason=\"", std::string(status.message()), "\""));
      }
    }
    wake_.wait_for(lock, kAlivePoll, [this] { return stopping_; });
    if (stopping_ || (pid_ != 0 && IsAlive())) continue;
    pid_ = 0;
    common::LogWarning("the worker exited; restarting it");
    wake_.wait_for(lock, kRespawnPause, [this] { return stopping_; });
  }
}

absl::Status PrivateWorker::Spawn() {
  const std::string program = WorkerProgram();
  const pid_t pid = common::StartProcess(
      {.program = program,
       .argv = {program, "--private", "--coordinator", "unix:" + socket_, "--name", MachineName(),
                "--state-dir", state_dir_, "--log-file", state_dir_ + "/worker.log"},
       .fds = {common::NoInput()}});
  if (pid < 0) {
    errno = -pid;
    return common::ErrnoStatus(StrCat("cannot start ", program));
  }
  pid_ = pid;
  is_child_ = true;
  common::LogInfo(StrCat("started the worker pid=", pid));
  return absl::OkStatus();
}

bool PrivateWorker::IsAlive() {
  if (!is_child_) {
    // A zombie still accepts signals: "4711 (muster-worker) Z …".
    const absl::StatusOr<std::string> stat = common::ReadFile(StrCat("/proc/", pid_, "/stat"));
    return stat.ok() && stat->find(") Z ") == std::string::npos;
  }
  int status = 0;
  return waitpid(pid_, &status, WNOHANG) == 0;
}

void PrivateWorker::Stop() {
  std::unique_lock lock(mutex_);
  if (std::exchange(stopping_, true)) return;
  wake_.notify_all();
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  if (pid_ == 0) return;
  kill(pid_, SIGTERM);
  WaitForEnd();
  pid_ = 0;
}

void PrivateWorker::WaitForEnd() {
  const auto until = std::chrono::steady_clock::now() + kEndWithin;
  while (IsAlive()) {
    if (std::chrono::steady_clock::now() > until) {
      common::LogWarning(StrCat("the worker does not exit; killing it pid=", pid_));
      kill(pid_, SIGKILL);
      if (!is_child_) return;
    }
    std::this_thread::sleep_for(kEndPoll);
  }
}

}  // namespace muster::coordinator
