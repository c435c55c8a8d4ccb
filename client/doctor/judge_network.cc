// Checks what ranks and daemons need to find and reach each other: names, ports, time, programs.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "client/doctor/checks.h"
#include "client/doctor/machine.h"
#include "common/base/loopback.h"
#include "common/base/version.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;

// 2026-01-01: before this version of Muster existed.
constexpr int64_t kEarliestWallS = 1'767'225'600;

}  // namespace

Verdict JudgeHostname(const MachineFacts& facts) {
  const NetworkFacts& network = facts.network;
  const std::string fix =
      StrCat("name the address that other nodes reach before ", network.hostname,
             " in /etc/hosts; start this node's worker with --advertise ADDRESS");
  if (network.addresses.empty()) {
    return {Grade::kWarning,
            StrCat(network.hostname, " does not resolve: ", network.resolve_trouble), fix};
  }
  const auto loopback =
      std::find_if(network.addresses.begin(), network.addresses.end(), common::IsLoopbackHost);
  if (loopback != network.addresses.end()) {
    return {Grade::kWarning,
            StrCat(network.hostname, " resolves to ", *loopback,
                   ": fine on one node, but jobs on several would not meet"),
            fix};
  }
  return {Grade::kGood, StrCat(network.hostname, " is ", absl::StrJoin(network.addresses, ", "))};
}

Verdict JudgePorts(const MachineFacts& facts) {
  const NetworkFacts& network = facts.network;
  if (!network.loopback_trouble.empty()) {
    return {Grade::kBroken, StrCat("127.0.0.1 cannot be used: ", network.loopback_trouble),
            "sudo ip link set lo up"};
  }
  const std::string range = StrCat(kMasterPortFirst, "-", kMasterPortLast);
  const std::string found =
      StrCat(range, ": ", network.ports_free, " of ", network.ports_tried, " tried are free");
  if (network.ports_free == 0) {
    return {Grade::kBroken, found, "ss -tlnp; or start the worker with --port-range LO-HI"};
  }
  if (network.ephemeral_first <= kMasterPortLast && network.ephemeral_last >= kMasterPortFirst) {
    return {Grade::kWarning,
            StrCat(found, ", but the kernel uses ", network.ephemeral_first, "-",
                   network.ephemeral_last, " for outgoing connections"),
            "start the worker with --port-range LO-HI outside of it, or raise "
            "net.ipv4.ip_local_port_range"};
  }
  if (network.ports_free * 2 < network.ports_tried) {
    return {Grade::kWarning, found, "ss -tlnp; or start the worker with --port-range LO-HI"};
  }
  return {Grade::kGood, found};
}

Verdict JudgeClock(const MachineFacts& facts) {
  const ClockFacts& clock = facts.clock;
  if (clock.wall_s < kEarliestWallS) {
    return {Grade::kBroken, StrCat("set to ", clock.wall_s / 31'556'952 + 1970, ", in the past"),
            "sudo timedatectl set-ntp true"};
  }
  if (!clock.trouble.empty()) {
    return {Grade::kWarning, StrCat("its state cannot be read: ", clock.trouble),
            "timedatectl on the host"};
  }
  if (!clock.synchronized) {
    return {Grade::kWarning,
            "not synchronized: times of several nodes cannot be compared, and certificates may "
            "be refused",
            "sudo timedatectl set-ntp true; or install chrony"};
  }
  return {Grade::kGood, StrCat("synchronized, off by ",
                               common::HumanDuration(clock.error_us / 1000), " at most")};
}

Verdict JudgePrograms(const MachineFacts& facts) {
  if (facts.programs.trouble.empty()) {
    return {Grade::kGood, StrCat("jobctl, coordinator, worker, shim ", common::kVersion)};
  }
  return {Grade::kBroken, facts.programs.trouble,
          "install all Muster programs in the same directory"};
}

Verdict JudgeCoordinator(const MachineFacts& facts) {
  const CoordinatorFacts& coordinator = facts.coordinator;
  const std::string which = coordinator.is_private ? "private" : coordinator.endpoint;
  if (!coordinator.trouble.empty()) {
    return {Grade::kBroken, coordinator.trouble, coordinator.fix};
  }
  if (!coordinator.answers) return {Grade::kGood, StrCat(which, ", started on demand")};
  const std::string found =
      StrCat(which, ", version ", coordinator.version, ", protocol ", coordinator.protocol);
  if (coordinator.version != common::kVersion) {
    return {Grade::kWarning, StrCat(found, "; jobctl is ", common::kVersion),
            "install the same version; until then both understand the older protocol"};
  }
  return {Grade::kGood, found};
}

Verdict JudgeAllReduce(const MachineFacts& facts) {
  const AllReduceFacts& all_reduce = facts.all_reduce;
  if (!all_reduce.done) return {Grade::kBroken, all_reduce.trouble, all_reduce.fix};
  return {Grade::kGood, StrCat("2 ranks agreed; coordinator, worker and ranks took ",
                               common::HumanDuration(all_reduce.took_ms))};
}

}  // namespace muster::client::doctor
