// How an attempt starts: signals, subreaper, socket, spool files, forks. Part of Supervisor
// (supervisor.h).
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/files/cgroup_files.h"
#include "common/files/plain_files.h"
#include "common/kernel/process.h"
#include "shim/container_mounts.h"
#include "shim/process_domain.h"
#include "shim/rank_mounts.h"
#include "shim/supervisor.h"

namespace muster::shim {
namespace {

constexpr int kShimOomScore = -500;
constexpr int64_t kExitBytes = 1024;  // of an exit record, at most
constexpr int64_t kExitBytesPerRank = 512;
constexpr char kOomScorePath[] = "/proc/self/oom_score_adj";

// Makes the kernel's OOM killer spare the shim in favor of the ranks, if permitted. Returns the
// score for the ranks: never below 0.
int LowerOwnOomScore() {
  std::string text;
  common::ReadSmallFile(kOomScorePath, &text);
  const int inherited = std::atoi(text.c_str());
  common::WriteControlFile(kOomScorePath, std::to_string(kShimOomScore));
  return std::max(0, inherited);
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGCHLD);
  sigaddset(&handled, SIGTERM);
  return signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
}

// A cgroup that is gone leaves -1, and the rank fails to enter it.
void OpenLimits(const common::RankLaunch& rank, RankSetup* setup) {
  setup->limit_procs_fds.clear();
  for (const std::string& directory : rank.limit_dirs) {
    const std::string procs = directory + "/cgroup.procs";
    setup->limit_procs_fds.push_back(open(procs.c_str(), O_WRONLY | O_CLOEXEC));
  }
}

}  // namespace

Supervisor::Supervisor(common::ShimLaunch launch, int worker_fd)
    : launch_(std::move(launch)), connection_(worker_fd), ranks_(launch_.ranks.size()) {
  turn_us_ = common::MonotonicMicros();
  quota_.limit = launch_.spool_quota_bytes;
  quota_.block_when_full = launch_.block_when_full;
  fence_us_ = launch_.fence_mono_ms * 1000;
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].exit.rank = launch_.ranks[i].rank;
}

Supervisor::~Supervisor() {
  if (signal_fd_ >= 0) close(signal_fd_);
  if (store_.exits >= 0) close(store_.exits);
}

std::string Supervisor::Prepare() {
  signal_fd_ = BlockSignals();
  if (signal_fd_ < 0) return std::string("cannot make a signalfd: ") + std::strerror(errno);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  RaiseDescriptorLimit();
  const int error = connection_.Listen(launch_.socket_path);
  if (error != 0) {
    return "cannot listen on " + launch_.socket_path + ": " + std::strerror(error);
  }
  // The exit record must fit on the disk even after the spool has filled it.
  common::ReserveFile(launch_.attempt_dir + "/" + common::kExitRecordName + ".tmp",
                      kExitBytes + kExitBytesPerRank * static_cast<int64_t>(ranks_.size()));
  std::vector<int> write_ends;
  std::string failure = OpenSpools(&write_ends);
  RankMounts mounts;
  if (failure.empty()) failure = StartStore();
  if (failure.empty()) failure = MakeSpace();
  if (failure.empty()) failure = MakeMounts(&mounts);
  if (failure.empty() && launch_.sandbox.has_own_domain) {
    // A supervisor without capabilities may enter a domain only after this.
    if (launch_.no_new_privs) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    failure = EnterOwnDomain();
    if (!failure.empty()) failure = "cannot separate the ranks from other processes: " + failure;
  }
  if (failure.empty()) StartRanks(write_ends, mounts);
  for (const int fd : write_ends) close(fd);
  SaveState();
  ReplayFacts();
  return failure;
}

// Before the ranks' sandbox is made, which it is not in.
std::string Supervisor::StartStore() {
  if (launch_.rendezvous_program.empty()) return {};
  store_ = StartRendezvous(launch_);
  return store_.pid > 0
             ? ""
             : "cannot start " + launch_.rendezvous_program + ": " + std::strerror(errno);
}

// A runtime itself stays outside the namespace, and makes its container inside.
std::string Supervisor::MakeSpace() {
  if (!launch_.sandbox.has_own_processes) return {};
  std::string failure = MakeProcessSpace(launch_, &space_);
  if (failure.empty() && launch_.container.runtime.empty() && StartInside(space_) != 0)
    failure = std::string("cannot enter a PID namespace: ") + std::strerror(errno);
  return failure.empty() ? "" : "cannot separate the ranks from other processes: " + failure;
}

std::string Supervisor::MakeMounts(RankMounts* mounts) {
  std::string failure;
  if (!launch_.container.runtime.empty()) {
    *mounts = MakeContainerMounts(launch_.container, launch_.account, space_.fd, &failure);
    return failure.empty() ? "" : "cannot make the container of the ranks: " + failure;
  }
  if (!launch_.sandbox.has_own_mounts) return {};
  *mounts = MakeRankMounts(launch_.sandbox, launch_.account, &failure);
  return failure.empty() ? "" : "cannot make the sandbox of the ranks: " + failure;
}

std::string Supervisor::OpenSpools(std::vector<int>* write_ends) {
  for (Rank& rank : ranks_) {
    for (int i = 0; i < common::kStreams; ++i) {
      const std::string path =
          common::SpoolPath(launch_.spool_dir, rank.exit.rank, static_cast<common::Stream>(i));
      int write_end = -1;
      const int error = rank.streams[i].Open(path, &quota_, &write_end);
      if (error != 0) {
        return "cannot create the spool " + path + ": " + std::strerror(error) +
               (error == EMFILE ? "; fix: raise the worker's hard limit (ulimit -Hn): each rank "
                                  "takes six descriptors of its supervisor"
                                : "");
      }
      write_ends->push_back(write_end);
      // A rank that opens /dev/stderr opens this pipe.
      if (launch_.account.is_other &&
          fchown(write_end, launch_.account.uid, launch_.account.gid) != 0) {
        return "cannot hand over the pipe of " + path + ": " + std::strerror(errno);
      }
    }
  }
  return {};
}

void Supervisor::StartRanks(const std::vector<int>& write_ends, const RankMounts& mounts) {
  RankSetup setup;
  setup.oom_score_adj = LowerOwnOomScore();
  setup.attempt = &launch_;
  setup.mounts_fd = mounts.mounts_fd;
  setup.ipc_fd = mounts.ipc_fd;
  setup.is_inside = space_.IsMade() && launch_.container.runtime.empty();
  if (!launch_.cgroup_dir.empty()) {
    setup.cgroup_fd = open(launch_.cgroup_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
  if (!launch_.freezer_dir.empty()) {
    const std::string procs = launch_.freezer_dir + "/cgroup.procs";
    setup.freezer_procs_fd = open(procs.c_str(), O_WRONLY | O_CLOEXEC);
  }
  out_of_memory_seen_ = common::OutOfMemoryKills(launch_.cgroup_dir);
  first_start_us_ = common::MonotonicMicros();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (common::MonotonicMicros() >= FenceEndUs()) {
      NeverStart(rank);
      continue;
    }
    setup.launch = &launch_.ranks[i];
    OpenLimits(launch_.ranks[i], &setup);
    if (launch_.ranks[i].limits_memory) rank.memory_dir = launch_.ranks[i].limit_dirs.front();
    setup.stdout_fd = write_ends[i * common::kStreams];
    setup.stderr_fd = write_ends[i * common::kStreams + 1];
    const RankProcess process = StartRank(setup);
    for (const int fd : setup.limit_procs_fds) {
      if (fd >= 0) close(fd);
    }
    rank.pid = process.pid;
    rank.in_runtime = process.pid > 0 && !launch_.container.runtime.empty();
    rank.exec_pipe = process.exec_pipe;
    rank.exit.pid = std::max(0, process.pid);
    if (process.pid < 0) {
      // No process or descriptor was available. Reported like a failed exec, so that the
      // coordinator stops the gang.
      rank.exec_pipe = -1;
      rank.exited = true;
      rank.exit.exit_code = 126;
      rank.exit.exec_errno = process.error;
      rank.exit.exec_stage = common::ExecStage::kFork;
      rank.exit.wall_ms = common::WallMicros() / 1000;
      if (process.exec_pipe >= 0) close(process.exec_pipe);
      continue;
    }
    common::ProcessStat stat;
    if (common::ReadProcessStat(rank.pid, &stat)) rank.start_time = stat.start_time;
  }
  for (const int fd : {setup.cgroup_fd, setup.freezer_procs_fd, mounts.mounts_fd, mounts.ipc_fd}) {
    if (fd >= 0) close(fd);
  }
  // Done for containers, too: `jobctl exec` enters by this process's /proc/PID/ns/pid_for_children.
  if (space_.IsMade()) StartInside(space_);
  // Argument lists and environments are only needed for exec.
  std::vector<common::RankLaunch>().swap(launch_.ranks);
}

// The node was frozen since the order came: its lease is over, and the rank may be running
// elsewhere.
void Supervisor::NeverStart(Rank& rank) {
  stop_asked_ = true;
  rank.exited = true;
  rank.exit.signal = SIGKILL;
  rank.exit.stopped = true;
  rank.exit.wall_ms = common::WallMicros() / 1000;
}

// For KillAttempt after the shim is gone: what to look for besides the mark. Not synced, because
// pids only matter within one boot.
void Supervisor::SaveState() {
  common::ProcessStat self;
  common::ReadProcessStat(getpid(), &self);
  std::string text =
      "shim " + std::to_string(self.pid) + " " + std::to_string(self.start_time) + "\n";
  common::ProcessStat first;
  if (space_.IsMade() && common::ReadProcessStat(space_.first, &first))
    text += "first " + std::to_string(first.pid) + " " + std::to_string(first.start_time) + "\n";
  for (const Rank& rank : ranks_) {
    if (rank.pid <= 0) continue;
    text += "rank " + std::to_string(rank.pid) + " " + std::to_string(rank.start_time) + "\n";
  }
  if (stop_asked_) text += "stop_deadline_us " + std::to_string(stop_deadline_us_) + "\n";
  common::ReplaceFile(launch_.attempt_dir + "/" + common::kShimStateName, text, false);
}

}  // namespace muster::shim
