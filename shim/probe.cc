#include "shim/probe.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/process.h"
#include "common/shim_protocol.h"
#include "shim/call_filter.h"
#include "shim/container_mounts.h"
#include "shim/process_domain.h"
#include "shim/rank_account.h"
#include "shim/rank_mounts.h"
#include "shim/rank_process.h"

namespace muster::shim {
namespace {

constexpr int kCannotStart = 126;
constexpr size_t kJoinPidBytesMax = 32;

void Say(const char* name, const std::string& lack) {
  std::printf("%s\t%s\n", name, lack.c_str());
  std::fflush(stdout);
}

std::string Lack(int error) { return error == 0 ? "" : std::strerror(error); }

std::string TryMounts() {
  common::LaunchSandbox sandbox;
  sandbox.temporary_dir = "/tmp";
  std::string failure;
  const int mounts = MakeRankMounts(sandbox, {}, &failure);
  if (mounts >= 0 && setns(mounts, CLONE_NEWNS) != 0)
    failure = std::string("cannot enter a mount namespace: ") + std::strerror(errno);
  return failure;
}

}  // namespace

int ProbeSandbox() {
  Say(common::kMeansMounts, TryMounts());
  const bool dropped = BecomeAccount({}, /*drops_capabilities=*/true) == common::ExecStage::kNone;
  Say(common::kMeansCapabilities, dropped ? "" : Lack(errno));
  Say(common::kMeansNoNewPrivs, Lack(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno));
  Say(common::kMeansDomain, EnterOwnDomain());
  Say(common::kMeansCallFilter, Lack(FilterCalls()));
  return 0;
}

namespace {

bool ReadLaunch(int fd, common::ShimLaunch* launch) {
  std::string bytes;
  if (lseek(fd, 0, SEEK_SET) != 0 || !common::ReadAllFd(fd, &bytes, common::kLaunchFileBytesMax) ||
      !common::DecodeShimLaunch(bytes, launch) || launch->ranks.size() != 1) {
    std::fprintf(stderr, "muster-shim got no command to run\n");
    return false;
  }
  return true;
}

// False, with the reason on stderr: the cgroups are gone, so the attempt is over.
bool EnterCgroups(const common::ShimLaunch& launch) {
  const std::vector<std::string>& limits = launch.ranks[0].limit_dirs;
  std::vector<std::string> dirs = limits;
  if (!launch.freezer_dir.empty()) dirs.insert(dirs.begin(), launch.freezer_dir);
  if (!launch.cgroup_dir.empty()) dirs.insert(dirs.begin(), launch.cgroup_dir);
  for (const std::string& dir : dirs) {
    if (common::WriteControlFile(dir + "/cgroup.procs", "0")) continue;
    // Where limits divide the attempt's cgroup, only its leaves hold processes.
    if (dir == launch.cgroup_dir && !limits.empty()) continue;
    std::fprintf(stderr, "cannot enter the cgroup of the rank: %s\n", std::strerror(errno));
    return false;
  }
  return true;
}

// The mount namespace of a rank that runs in a container; its other namespaces are entered. -1, with
// the reason on stderr: it does not run any more.
int EnterContainerOf(const common::ShimLaunch& launch) {
  std::string text;
  common::ReadSmallFile(common::BundlePath(launch.container, launch.ranks[0].rank) + "/pid", &text,
                        kJoinPidBytesMax);
  const pid_t pid = std::atoi(text.c_str());
  const std::string spaces = "/proc/" + std::to_string(pid) + "/ns/";
  const int mounts = open((spaces + "mnt").c_str(), O_RDONLY | O_CLOEXEC);
  const int ipc = open((spaces + "ipc").c_str(), O_RDONLY | O_CLOEXEC);
  const int name = open((spaces + "uts").c_str(), O_RDONLY | O_CLOEXEC);
  // The number may be another process's by now.
  const bool is_rank = pid > 0 && common::EnvironValue(pid, common::kMarkVariable) == launch.mark;
  if (is_rank && mounts >= 0 && setns(ipc, CLONE_NEWIPC) == 0 && setns(name, CLONE_NEWUTS) == 0)
    return mounts;
  std::fprintf(stderr, "cannot enter the container of the rank: %s\n",
               is_rank ? std::strerror(errno) : "it has ended");
  return -1;
}

// From other processes, as far as the launch asks for it. False, with the reason on stderr.
bool IsSeparated(const common::ShimLaunch& launch) {
  const bool no_new_privs = !launch.no_new_privs || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  const std::string lack = launch.sandbox.has_own_domain ? EnterOwnDomain() : "";
  if (no_new_privs && lack.empty()) return true;
  std::fprintf(stderr, "cannot separate it from other processes: %s\n", lack.c_str());
  return false;
}

// `joined_mounts`: of the container to enter; -1: none.
int Become(const common::ShimLaunch& launch, pid_t parent, int joined_mounts) {
  RankSetup setup;
  setup.parent = parent;
  setup.attempt = &launch;
  setup.launch = &launch.ranks[0];
  if (!launch.container.runtime.empty()) {
    const std::string failure = EnterContainerMounts(launch.container, launch.account);
    if (!failure.empty()) {
      std::fprintf(stderr, "cannot make its container: %s\n", failure.c_str());
      return kCannotStart;
    }
    return IsSeparated(launch) ? RunContainer(setup) : kCannotStart;
  } else if (joined_mounts >= 0) {
    setup.mounts_fd = joined_mounts;
  } else if (launch.sandbox.has_own_mounts) {
    std::string failure;
    setup.mounts_fd = MakeRankMounts(launch.sandbox, launch.account, &failure);
    if (setup.mounts_fd < 0) {
      std::fprintf(stderr, "cannot make its sandbox: %s\n", failure.c_str());
      return kCannotStart;
    }
  }
  if (!IsSeparated(launch)) return kCannotStart;
  const ExecFailure failed = BecomeProgram(setup);
  std::fprintf(stderr, "cannot start %s: %s\n", setup.launch->program.c_str(),
               std::strerror(failed.error));
  return kCannotStart;
}

}  // namespace

int RunConfined(int fd) {
  common::ShimLaunch launch;
  return ReadLaunch(fd, &launch) ? Become(launch, 0, -1) : kCannotStart;
}

int RunJoined(int fd) {
  const pid_t parent = getppid();
  common::ShimLaunch launch;
  if (!ReadLaunch(fd, &launch) || !EnterCgroups(launch)) return kCannotStart;
  umask(022);
  if (launch.container.runtime.empty()) return Become(launch, parent, -1);
  const int mounts = EnterContainerOf(launch);
  if (mounts < 0) return kCannotStart;
  // What the runtime does for the rank itself.
  launch.container = {};
  launch.no_new_privs = true;
  launch.sandbox.drops_capabilities = launch.sandbox.filters_calls = true;
  launch.sandbox.has_own_mounts = false;
  return Become(launch, parent, mounts);
}

}  // namespace muster::shim
