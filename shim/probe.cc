#include "shim/probe.h"

#include <sched.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/kernel/shim_protocol.h"
#include "shim/call_filter.h"
#include "shim/process_domain.h"
#include "shim/process_space.h"
#include "shim/rank_account.h"
#include "shim/rank_mounts.h"

namespace muster::shim {
namespace {

void Say(const char* name, const std::string& lack) {
  std::printf("%s\t%s\n", name, lack.c_str());
  std::fflush(stdout);
}

std::string Lack(int error) { return error == 0 ? "" : std::strerror(error); }

// Makes the ranks' view, and checks what is visible from it.
std::string Try(const common::LaunchSandbox& sandbox) {
  std::string failure;
  const RankMounts mounts = MakeRankMounts(sandbox, {}, &failure);
  if (failure.empty() && setns(mounts.mounts_fd, CLONE_NEWNS) != 0)
    failure = std::string("cannot enter a mount namespace: ") + std::strerror(errno);
  return failure;
}

std::string TryProcesses(common::LaunchSandbox sandbox) {
  sandbox.has_own_processes = true;
  common::ShimLaunch launch;
  launch.sandbox = sandbox;
  ProcessSpace space;
  std::string failure = MakeProcessSpace(launch, &space);
  if (failure.empty() && StartInside(space) != 0)
    failure = std::string("cannot enter a PID namespace: ") + std::strerror(errno);
  if (failure.empty()) failure = Try(sandbox);
  EndProcessSpace(&space);
  return failure;
}

}  // namespace

int ProbeSandbox() {
  common::LaunchSandbox sandbox;
  sandbox.temporary_dir = "/tmp";
  const std::string lack = Try(sandbox);
  Say(common::kMeansMounts, lack);
  sandbox.has_own_ipc = true;
  Say(common::kMeansIpc, lack.empty() ? Try(sandbox) : lack);
  sandbox.has_own_ipc = false;
  Say(common::kMeansProcesses, lack.empty() ? TryProcesses(sandbox) : lack);
  const bool dropped = BecomeAccount({}, /*drops_capabilities=*/true) == common::ExecStage::kNone;
  Say(common::kMeansCapabilities, dropped ? "" : Lack(errno));
  Say(common::kMeansNoNewPrivs, Lack(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno));
  Say(common::kMeansDomain, EnterOwnDomain());
  Say(common::kMeansCallFilter, Lack(FilterCalls()));
  return 0;
}

}  // namespace muster::shim
