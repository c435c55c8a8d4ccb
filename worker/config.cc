// config: checks and node facts.
#include "worker/config.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/limits.h"
#include "common/base/loopback.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/base/addresses.h"
#include "worker/devices/device_probe.h"
#include "worker/launch/launch_environment.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

// The address at which other nodes most likely reach this one: the first that is not loopback, IPv4
// before IPv6.
std::string GuessAddress() {
  std::string six;
  for (const InterfaceAddress& address : ListInterfaceAddresses()) {
    if (common::IsLoopbackHost(address.address)) continue;
    if (address.address.find(':') == std::string::npos) return address.address;
    if (six.empty() && address.address.rfind("fe80", 0) != 0) six = address.address;
  }
  return six.empty() ? "127.0.0.1" : six;
}

absl::Status SetCoordinators(Config* config) {
  config->coordinators = SplitAddresses(config->coordinator);
  const bool is_list = config->coordinators.size() > 1;
  if (config->coordinators.size() > kHeadsMax) {
    return absl::InvalidArgumentError(
        common::StrCat("--coordinator names ", config->coordinators.size(),
                       " addresses, but at most ", kHeadsMax, " are dialed; fix: name fewer"));
  }
  for (const std::string& address : config->coordinators) {
    if (address.find(':') != std::string::npos) continue;
    return absl::InvalidArgumentError(common::StrCat(
        "--coordinator \"", common::Printable(config->coordinator), "\"",
        is_list ? common::StrCat(": \"", common::Printable(address), "\"") : "",
        " is neither unix:/path nor HOST:PORT", is_list ? "; fix: HOST:PORT,HOST:PORT" : ""));
  }
  config->coordinators = MergeHeads(config->coordinators, {});
  return absl::OkStatus();
}

absl::Status SetRunAs(Config* config) {
  const bool is_root = geteuid() == 0;
  config->run_as = config->run_as_flag.empty() ? DefaultRunAs(is_root, config->is_secured)
                                               : ParseRunAs(config->run_as_flag);
  config->run_as.allows_root = config->allows_root;
  if (!config->run_as.IsOther() || is_root) return absl::OkStatus();
  return absl::InvalidArgumentError(common::StrCat(
      "--run-as ", common::Printable(config->run_as_flag),
      ": only a worker that is root can start ranks as another account, and this one "
      "is uid ",
      geteuid(), "; fix: start it as root, or with --run-as worker"));
}

}  // namespace

absl::Status CheckConfig(Config* config) {
  if (config->name.empty()) config->name = HostName();
  if (config->name.size() > common::kNameBytesMax || !common::IsCleanUtf8(config->name) ||
      config->name.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(common::StrCat(
        "--name \"", common::Printable(config->name), "\" must be 1 to ", common::kNameBytesMax,
        " bytes of UTF-8 without control characters and slashes"));
  }
  RETURN_IF_ERROR(SetCoordinators(config));
  std::error_code error;
  config->state_dir = fs::absolute(config->state_dir, error).lexically_normal().string();
  if (config->runtime_dir.empty()) config->runtime_dir = DefaultRuntimeDir(config->state_dir);
  if (config->runtime_dir.size() > kRuntimeDirBytesMax) {
    return absl::InvalidArgumentError(common::StrCat(
        "--runtime-dir ", config->runtime_dir, " is longer than ", kRuntimeDirBytesMax,
        " bytes, and a unix socket's path is limited to 108; fix: use a shorter one"));
  }
  RETURN_IF_ERROR(SetRunAs(config));
  if (config->advertise.empty()) {
    const bool local = config->is_private || config->coordinator.rfind("unix:", 0) == 0;
    config->advertise = local ? "127.0.0.1" : GuessAddress();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::NodeFacts> MakeFacts(const Config& config, const Identity& identity,
                                        const common::CgroupHost& cgroups,
                                        const LimitHost& limits) {
  v1::NodeFacts facts;
  facts.set_name(config.name);
  facts.set_incarnation(identity.incarnation);
  facts.set_boot_id(identity.boot_id);
  facts.set_machine_id(identity.machine_id);
  facts.set_hostname(HostName());
  facts.set_advertise(config.advertise);
  const ProbedHost host = ProbeHost(config.device_root);
  ASSIGN_OR_RETURN(const std::vector<v1::Device> devices, ResolveDevices(config.devices, host));
  for (const v1::Device& device : devices) {
    *facts.add_devices() = device;
  }
  facts.set_oversubscribe_cpu(config.is_private);
  facts.set_driver(host.driver.driver);
  facts.set_driver_cuda(host.driver.cuda);
  facts.set_cores(host.cores);
  facts.set_memory_bytes(UsableMemoryBytes());
  facts.set_kill_level(common::KillLevelName(cgroups));
  *facts.mutable_limits() = DescribeLimitHost(limits);
  facts.set_version(common::kVersion);
  facts.set_protocol(common::kProtocol);
  facts.set_process(common::Random64());
  return facts;
}

}  // namespace muster::worker
