#include "coordinator/core/decide/node_facts.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/base/loopback.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/text.h"

namespace muster::coordinator {
namespace {

// limit: nodes: what one node reports of itself; it is refused (JC1405)
constexpr size_t kFactsBytesMax = 512 * 1024;  // in the event that has them, and in each snapshot
constexpr size_t kVersionBytesMax = 64;
constexpr int kMeansMax = 32;  // of isolation
constexpr int kContainerLacksMax = 32;
constexpr size_t kContainerLackBytesMax = 1'024;

absl::Status Bad(const v1::NodeFacts& facts, const std::string& what) {
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1408",
       .what = absl::StrCat("node ", common::Printable(facts.name()), " says ", what),
       .fix = "run the coordinator's release of muster-worker there"});
}

bool IsFact(const std::string& text) {
  return text.size() <= common::kFactBytesMax && common::IsCleanUtf8(text);
}

absl::Status JudgeIsolation(const v1::NodeFacts& facts) {
  const v1::IsolationFacts& isolation = facts.isolation();
  bool is_fit = IsFact(isolation.level()) && IsFact(isolation.run_as());
  for (const auto* texts : {&isolation.means(), &isolation.lacks()}) {
    is_fit &= texts->size() <= kMeansMax;
    for (int i = 0; is_fit && i < texts->size(); ++i) is_fit = IsFact(texts->Get(i));
  }
  if (is_fit) return absl::OkStatus();
  return Bad(facts, "texts about the isolation of its ranks that are not printable or too long");
}

absl::Status JudgeContainers(const v1::NodeFacts& facts) {
  const v1::ContainerFacts& containers = facts.containers();
  bool is_fit = IsFact(containers.runtime()) && IsFact(containers.fetcher()) &&
                containers.lacks_size() <= kContainerLacksMax;
  for (int i = 0; is_fit && i < containers.lacks_size(); ++i) {
    is_fit = containers.lacks(i).size() <= kContainerLackBytesMax &&
             common::IsCleanUtf8(containers.lacks(i));
  }
  if (is_fit) return absl::OkStatus();
  return Bad(facts, "texts about its containers that are not printable or too long");
}

}  // namespace

absl::Status JudgeFacts(const v1::NodeFacts& facts) {
  if (facts.ByteSizeLong() > kFactsBytesMax) {
    return Bad(facts, absl::StrCat("facts of ", facts.ByteSizeLong(), " bytes, more than ",
                                   kFactsBytesMax));
  }
  const std::pair<const char*, const std::string*> texts[] = {
      {"boot id", &facts.boot_id()},       {"address", &facts.advertise()},
      {"kill level", &facts.kill_level()}, {"version", &facts.version()},
      {"host name", &facts.hostname()},    {"machine id", &facts.machine_id()},
      {"driver", &facts.driver()},         {"driver's CUDA", &facts.driver_cuda()}};
  for (const auto& [name, text] : texts) {
    if (!IsFact(*text)) {
      return Bad(facts, absl::StrCat("a ", name, " that is not printable text of at most ",
                                     common::kFactBytesMax, " bytes"));
    }
  }
  for (const v1::LimitGap* gap : {&facts.limits().no_cpus(), &facts.limits().no_memory()}) {
    if (!IsFact(facts.limits().how()) || !IsFact(gap->why()) || !IsFact(gap->fix())) {
      return Bad(facts, "texts about its limits that are not printable or too long");
    }
  }
  RETURN_IF_ERROR(JudgeIsolation(facts));
  RETURN_IF_ERROR(JudgeContainers(facts));
  if (facts.devices_size() > static_cast<int>(common::kNodeDevicesMax)) {
    return Bad(facts, absl::StrCat("that it has ", facts.devices_size(),
                                   " devices, which is more than ", common::kNodeDevicesMax));
  }
  std::set<std::pair<std::string, uint32_t>> known;
  for (const v1::Device& device : facts.devices()) {
    if (!IsFact(device.kind()) || !IsFact(device.model()) || !IsFact(device.uuid())) {
      return Bad(facts, absl::StrCat("texts of its device ", device.index(),
                                     " that are not printable or too long"));
    }
    if (!device.address().empty() && !common::IsIpAddress(device.address())) {
      return Bad(facts, absl::StrCat("an address of its device ", device.index(),
                                     " that is not an IP address"));
    }
    if (!known.insert({device.kind(), device.index()}).second) {
      return Bad(facts, absl::StrCat("that it has ", device.kind(), " ", device.index(), " twice"));
    }
  }
  return absl::OkStatus();
}

v1::Versions BoundVersions(const v1::Versions& said) {
  const auto bound = [](const std::string& text) {
    return common::Printable(text.substr(0, kVersionBytesMax));
  };
  v1::Versions versions;
  versions.set_driver(bound(said.driver()));
  versions.set_driver_cuda(bound(said.driver_cuda()));
  versions.set_framework(bound(said.framework()));
  versions.set_toolkit(bound(said.toolkit()));
  return versions;
}

}  // namespace muster::coordinator
