// confined_command: muster-shim confines itself and then becomes the command.
#include "worker/confinement/confined_command.h"

#include <sys/mman.h>

#include <utility>

#include "common/files/files.h"

namespace muster::worker {
namespace {

// What muster-shim reads to become the command.
common::UniqueFd LaunchOfCommand(const Confinement& confinement, const RankAccount& account,
                                 const common::RankLaunch& command) {
  common::ShimLaunch launch;
  launch.account = account.ids;
  launch.no_new_privs = confinement.no_new_privs;
  launch.sandbox = confinement.sandbox;
  launch.container = confinement.container;
  launch.mark = confinement.mark;
  launch.ranks.push_back(command);
  return LaunchInMemory(launch);
}

}  // namespace

common::UniqueFd LaunchInMemory(const common::ShimLaunch& launch) {
  common::UniqueFd file(memfd_create("muster-command", MFD_CLOEXEC));
  if (!file.valid() || !common::WriteAll(file.get(), common::EncodeShimLaunch(launch)).ok())
    return {};
  return file;
}

CommandOutput RunConfined(const Confinement& confinement, const RankAccount& account,
                          const common::RankLaunch& command, BoundedCommand bounds) {
  const bool is_confined =
      account.ids.is_other || confinement.no_new_privs || !confinement.container.runtime.empty();
  if (!is_confined) {
    bounds.program = command.program;
    bounds.argv = command.argv;
    bounds.env = command.env;
    bounds.workdir = command.workdir;
    return RunBounded(bounds);
  }
  const common::UniqueFd launch = LaunchOfCommand(confinement, account, command);
  if (!launch.valid()) return {.out = "", .err = "", .problem = "no descriptor is free"};
  bounds.program = confinement.shim_binary;
  bounds.argv = {confinement.shim_binary, common::kConfineArgument};
  bounds.env = confinement.env;
  bounds.workdir = "/";
  bounds.passed_fd = launch.get();
  return RunBounded(bounds);
}

}  // namespace muster::worker
