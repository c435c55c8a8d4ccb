// muster-shim: supervises one attempt on one node. Started by muster-worker, never by a person.
//
// Descriptors: 0 /dev/null, 1 and 2 the attempt's shim.log, 3 the worker's connection, 4 the locked
// launch file (the lock shows that this process is alive), 5… the held ports. Ranks inherit none of
// them.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/files/plain_files.h"
#include "common/kernel/shim_protocol.h"
#include "shim/barrier.h"
#include "shim/commands.h"
#include "shim/probe.h"
#include "shim/supervisor.h"

namespace {

// A process that has entered a PID namespace whose first process is gone cannot start anything, as a
// runtime may do at exit: a sanitizer's would then wait forever.
[[noreturn]] void End(int status) {
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace muster;
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("muster-shim protocol %u\n", common::kShimVersion);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], common::kProbeArgument) == 0) End(shim::ProbeSandbox());
  if (argc == 2 && std::strcmp(argv[1], common::kConfineArgument) == 0)
    End(shim::RunConfined(common::kConfinedFd));
  if (argc == 2 && std::strcmp(argv[1], common::kJoinArgument) == 0)
    return shim::RunJoined(common::kConfinedFd, common::kJoinedPidFd);
  if (argc == 4 && std::strcmp(argv[1], common::kBarrierArgument) == 0)
    return shim::WaitAtBarrier(argv[2], std::atoi(argv[3]));
  std::string bytes;
  common::ShimLaunch launch;
  if (argc != 3 || lseek(common::kLaunchFileFd, 0, SEEK_SET) != 0 ||
      !common::ReadAllFd(common::kLaunchFileFd, &bytes, common::kLaunchFileBytesMax)) {
    std::fprintf(stderr, "muster-shim is started by muster-worker; fix: use jobctl run\n");
    return 2;
  }
  if (!common::DecodeShimLaunch(bytes, &launch)) {
    std::fprintf(stderr, "the launch file is damaged, or its version is not %u\n",
                 common::kShimVersion);
    return 2;
  }
  std::string().swap(bytes);
  const int first_foreign = common::kFirstHeldPortFd + static_cast<int>(launch.held_ports);
  for (int fd = common::kWorkerConnectionFd; fd < first_foreign; ++fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  if (chdir("/") != 0) return 2;
  End(shim::Supervisor(std::move(launch), common::kWorkerConnectionFd).Run());
}
