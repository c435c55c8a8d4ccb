#include "client/doctor/cluster.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "client/command_line/errors.h"
#include "client/text/record_text.h"
#include "common/base/loopback.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;

// Beyond it, comparing times of different nodes misleads.
constexpr int64_t kClockOffMs = 1'000;

struct Network {
  uint32_t address;
  int bits;
};
// IPv4 networks that are not reachable from the internet (RFC 1918, 6598, 3927, 1122).
constexpr Network kNotPublic[] = {{0x0A000000, 8},  {0xAC100000, 12}, {0xC0A80000, 16},
                                  {0x64400000, 10}, {0xA9FE0000, 16}, {0x7F000000, 8}};

bool IsIn(uint32_t address, const Network& network) {
  return (address ^ network.address) >> (32 - network.bits) == 0;
}

// A name is not looked up.
bool IsPublicAddress(const std::string& text) {
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return std::none_of(std::begin(kNotPublic), std::end(kNotPublic),
                        [&](const Network& network) { return IsIn(ntohl(v4.s_addr), network); });
  }
  in6_addr v6{};
  // Global unicast addresses: 2000::/3.
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && (v6.s6_addr[0] & 0xE0) == 0x20;
}

// Ranks do not authenticate each other.
void JudgeRendezvous(const v1::NodeFacts& facts, std::vector<Verdict>* wrong) {
  if (!IsPublicAddress(facts.advertise())) return;
  wrong->push_back(
      {Grade::kWarning,
       StrCat("ranks meet at ", facts.advertise(),
              ", a public address: any machine that reaches it can read and break running jobs"),
       "restart its worker with --advertise ADDRESS of a private network, or let a firewall pass "
       "only nodes of the cluster to each other"});
}

std::string Summary(const v1::NodeView& view) {
  const v1::NodeFacts& facts = view.record().facts();
  std::string devices;
  for (const v1::DeviceUse& use : view.uses()) {
    const bool unlimited = common::IsHostKind(use.kind()) && facts.oversubscribe_cpu();
    common::StrAppend(&devices, unlimited ? "" : StrCat(use.total(), " "), use.kind(), ", ");
  }
  return StrCat(devices, facts.version(), ", ", facts.advertise());
}

void JudgeContact(const v1::NodeView& view, std::vector<Verdict>* wrong) {
  const v1::NodeRecord& node = view.record();
  const std::string& name = node.facts().name();
  if (node.state() == v1::NODE_STATE_LOST) {
    wrong->push_back({Grade::kBroken, StrCat("lost: ", node.reason()),
                      StrCat("start its worker again, or jobctl nodes rm ", name)});
  } else if (node.state() == v1::NODE_STATE_SUSPECT || !node.connected()) {
    wrong->push_back({Grade::kBroken, "not connected",
                      "on the node: systemctl status muster-worker, and its log"});
  } else if (view.clearing()) {
    wrong->push_back(
        {Grade::kWarning, "its worker is still killing what an older worker left",
         StrCat("jobctl nodes show ", name, "; it gets jobs again when that is done")});
  }
  if (node.draining()) {
    const std::string reason = node.drain_reason();
    wrong->push_back({Grade::kWarning,
                      StrCat("drained", reason.empty() ? "" : StrCat(": ", reason)),
                      StrCat("jobctl nodes undrain ", name)});
  }
}

void JudgeVersion(const v1::GetServerResponse& server, const v1::NodeFacts& facts,
                  std::vector<Verdict>* wrong) {
  if (facts.version() == server.version() && facts.protocol() == server.protocol()) return;
  wrong->push_back(
      {Grade::kWarning,
       StrCat("version ", facts.version(), ", protocol ", facts.protocol(),
              "; the coordinator has ", server.version(), ", protocol ", server.protocol()),
       "install the same version; restart the worker, its ranks keep running"});
}

void JudgeNodeClock(const v1::NodeView& view, std::vector<Verdict>* wrong) {
  if (!view.health().has_clock_ahead_ms()) return;
  const int64_t ahead_ms = view.health().clock_ahead_ms();
  if (ahead_ms > -kClockOffMs && ahead_ms < kClockOffMs) return;
  // The smallest number has no positive counterpart.
  const int64_t off_ms = ahead_ms < 0 ? -std::max(ahead_ms, -INT64_MAX) : ahead_ms;
  wrong->push_back(
      {Grade::kWarning,
       StrCat("its clock is ", common::HumanDuration(off_ms),
              ahead_ms < 0 ? " behind" : " ahead of", " the coordinator's"),
       StrCat("on ", view.record().facts().name(),
              " and the coordinator's host: timedatectl set-ntp true, or start chrony")});
}

void JudgeNodeDisk(const v1::NodeView& view, std::vector<Verdict>* wrong) {
  if (view.health().disk_bytes() == 0) return;
  Verdict verdict = JudgeDisk({.path = "its worker's --state-dir",
                               .bytes = view.health().disk_bytes(),
                               .bytes_free = view.health().disk_free_bytes()},
                              "free some space there: output and checkpoints on their way to the "
                              "coordinator need it");
  if (verdict.grade != Grade::kGood) wrong->push_back(std::move(verdict));
}

void JudgeCoordinatorDisk(const v1::GetServerResponse& server, std::vector<NodeVerdict>* verdicts) {
  if (server.disk_bytes() == 0) return;
  Verdict verdict = JudgeDisk({.path = server.data_dir(),
                               .bytes = server.disk_bytes(),
                               .bytes_free = server.disk_free_bytes()},
                              "jobctl rm old jobs and their checkpoints, or free some space there");
  if (verdict.grade != Grade::kGood) verdicts->push_back({"cluster", std::move(verdict)});
}

// Nodes that have an accelerator of the kind that this one lacks: a driver may be gone.
void JudgeDevices(const v1::NodeView& view, bool others_have_accelerators,
                  std::vector<Verdict>* wrong) {
  for (const v1::DeviceUse& use : view.uses()) {
    if (!common::IsHostKind(use.kind()) && use.total() > 0) return;
  }
  if (!others_have_accelerators) return;
  wrong->push_back({Grade::kWarning, "no accelerator, unlike other nodes",
                    StrCat("on ", view.record().facts().name(), ": jobctl doctor")});
}

bool HasAccelerators(const v1::NodeView& view) {
  for (const v1::DeviceUse& use : view.uses()) {
    if (!common::IsHostKind(use.kind()) && use.total() > 0) return true;
  }
  return false;
}

}  // namespace

std::vector<NodeVerdict> JudgeCluster(const v1::GetServerResponse& server,
                                      const v1::ListNodesResponse& nodes) {
  std::vector<NodeVerdict> verdicts;
  if (!nodes.alarm().empty()) {
    verdicts.push_back({"cluster", {Grade::kBroken, nodes.alarm(), "jobctl nodes ls"}});
  }
  JudgeCoordinatorDisk(server, &verdicts);
  for (const v1::ErrorDetail& each : nodes.warnings())
    verdicts.push_back({"cluster", {Grade::kWarning, Sentence(each), each.fix()}});
  if (nodes.nodes().empty()) {
    verdicts.push_back({"cluster",
                        {Grade::kBroken, "no node is registered",
                         "muster-worker --coordinator HOST:PORT --name NAME --state-dir DIR"}});
  }
  bool any_accelerators = false;
  std::map<std::string, int> hosts;
  for (const v1::NodeView& view : nodes.nodes()) {
    any_accelerators = any_accelerators || HasAccelerators(view);
    ++hosts[view.record().facts().hostname() + view.record().facts().boot_id()];
  }
  for (const v1::NodeView& view : nodes.nodes()) {
    const v1::NodeFacts& facts = view.record().facts();
    std::vector<Verdict> wrong;
    JudgeContact(view, &wrong);
    JudgeVersion(server, facts, &wrong);
    JudgeDevices(view, any_accelerators, &wrong);
    JudgeNodeClock(view, &wrong);
    JudgeNodeDisk(view, &wrong);
    JudgeRendezvous(facts, &wrong);
    if (hosts.size() > 1 && common::IsLoopbackHost(facts.advertise())) {
      wrong.push_back({Grade::kBroken,
                       StrCat("advertises ", facts.advertise(), ", which other nodes cannot reach"),
                       "restart its worker with --advertise ADDRESS"});
    }
    if (wrong.empty()) wrong.push_back({Grade::kGood, Summary(view)});
    for (Verdict& verdict : wrong) verdicts.push_back({facts.name(), std::move(verdict)});
  }
  return verdicts;
}

}  // namespace muster::client::doctor
