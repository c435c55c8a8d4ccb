#include "coordinator/core/scheduling/abilities.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/device_kinds.h"
#include "common/job/precision.h"
#include "common/job/shape.h"
#include "common/text/word_list.h"
#include "coordinator/core/state/rendezvous.h"

namespace muster::coordinator {
namespace {

constexpr size_t kNodesExplained = 3;
// Older workers would start the ranks without the job's code, setup or container.
constexpr uint32_t kProtocolPrepares = 3;
constexpr char kUpgrade[] = "install the coordinator's release of muster-worker there";

// A node whose worker does not report what it can limit is too old and cannot.
std::string CannotLimit(const v1::NodeFacts& facts, const Demand& demand) {
  const v1::RankLimits& limits = demand.shape.limits();
  const bool unknown = !facts.has_limits();
  const bool no_cpus = limits.cpu_millis() > 0 && (unknown || facts.limits().has_no_cpus());
  const bool no_memory = limits.memory_bytes() > 0 && (unknown || facts.limits().has_no_memory());
  if (no_cpus && no_memory) return "limit cpus and memory";
  return no_cpus ? "limit cpus" : no_memory ? "limit memory" : "";
}

Lack ExplainLimits(const v1::NodeFacts& facts, std::string what, const Demand& demand) {
  if (!facts.has_limits()) {
    return {facts.name(), std::move(what),
            "its worker is of an older version, which cannot limit ranks", kUpgrade};
  }
  const bool by_memory = demand.shape.limits().memory_bytes() > 0 && facts.limits().has_no_memory();
  const v1::LimitGap& gap = by_memory ? facts.limits().no_memory() : facts.limits().no_cpus();
  return {facts.name(), std::move(what), gap.why(), gap.fix()};
}

Demand WithoutLimits(Demand demand) {
  demand.shape.clear_limits();
  return demand;
}

std::string DescribeLimiting(const Demand& demand) {
  return absl::StrCat("enforce its limits (", job::DescribeLimits(demand.shape.limits()), ")");
}

bool IsTooOld(const v1::NodeFacts& facts) { return facts.protocol() < kProtocolPrepares; }

std::string CannotPrepare(const v1::NodeFacts& facts, const Demand& demand) {
  if (demand.container && (IsTooOld(facts) || facts.containers().runtime().empty())) {
    return "run containers";
  }
  return demand.prepares && IsTooOld(facts) ? "prepare code" : "";
}

Lack ExplainPreparation(const v1::NodeFacts& facts, std::string what, const Demand&) {
  if (IsTooOld(facts)) {
    return {facts.name(), std::move(what),
            "its worker is of an older version, which prepares nothing", kUpgrade};
  }
  const v1::ContainerFacts& containers = facts.containers();
  return {
      facts.name(), std::move(what),
      containers.lacks().empty() ? "its worker found no container runtime" : containers.lacks(0),
      "install runc or crun there and restart its worker"};
}

std::string CannotHost(const v1::NodeFacts& facts, const Demand& demand) {
  return demand.has_store && facts.protocol() < kProtocolHasStore ? "run the ranks' store" : "";
}

Lack ExplainStore(const v1::NodeFacts& facts, std::string what, const Demand&) {
  return {facts.name(), std::move(what), "its worker is of an older version, which has none",
          kUpgrade};
}

Demand WithoutStore(Demand demand) {
  demand.has_store = false;
  return demand;
}

Demand WithoutPreparation(Demand demand) {
  demand.prepares = demand.container = false;
  return demand;
}

// The node's first device that the job may get and that does not compute in what the job declares; null: none.
// A job that names no kind gets gpus if the cluster has any, so a node with gpus never lacks the type.
struct Unfit {
  const v1::Device* device = nullptr;
  const common::DeviceSeries* series = nullptr;
};
Unfit UnfitDevice(const v1::NodeFacts& facts, const Demand& demand) {
  const std::string& kind_name = demand.shape.device().kind();
  Unfit unfit;
  if (demand.precision.empty()) return unfit;
  for (const v1::Device& device : facts.devices()) {
    const common::DeviceKind* kind = common::FindDeviceKind(device.kind());
    if (kind == nullptr || kind->is_host) continue;
    if (kind_name.empty() && kind == &common::FirstAccelerator()) return {};
    if (!kind_name.empty() && kind_name != kind->name) continue;
    const common::DeviceSeries* series = common::FindDeviceSeries(kind->series, device.model());
    if (unfit.device == nullptr && series != nullptr &&
        common::HasWord(series->lacks_types, demand.precision)) {
      unfit = {&device, series};
    }
  }
  return unfit;
}

std::string CannotCompute(const v1::NodeFacts& facts, const Demand& demand) {
  if (UnfitDevice(facts, demand).device == nullptr) return "";
  return absl::StrCat("compute in ", demand.precision);
}

Lack ExplainPrecision(const v1::NodeFacts& facts, std::string what, const Demand& demand) {
  const Unfit unfit = UnfitDevice(facts, demand);
  std::string others;
  for (const char* type : {"bf16", "fp16"}) {
    if (!common::HasWord(unfit.series->lacks_types, type)) absl::StrAppend(&others, type, " or ");
  }
  return {facts.name(), std::move(what),
          absl::StrCat("its ", unfit.device->kind(), " ", unfit.device->index(), " is a ",
                       unfit.device->model(), " (", std::string(unfit.series->name), ")"),
          absl::StrCat("declare ", others, "no (float32) instead of ", demand.precision, " in ",
                       job::kPrecisionVariable, " or --mixed_precision"),
          /*is_of_job=*/true};
}

Demand WithoutPrecision(Demand demand) {
  demand.precision.clear();
  return demand;
}

constexpr Ability kAbilities[] = {
    {.reason = Reason::kLimits,
     .is_asked = [](const Demand& demand) { return demand.shape.has_limits(); },
     .lack = CannotLimit,
     .explain = ExplainLimits,
     .without = WithoutLimits,
     .describe = DescribeLimiting},
    {.reason = Reason::kPreparation,
     .is_asked = [](const Demand& demand) { return demand.prepares; },
     .lack = CannotPrepare,
     .explain = ExplainPreparation,
     .without = WithoutPreparation,
     .describe =
         [](const Demand& demand) {
           return std::string(demand.container ? "run containers" : "prepare code");
         }},
    {.reason = Reason::kRendezvous,
     .is_asked = [](const Demand& demand) { return demand.has_store; },
     .lack = CannotHost,
     .explain = ExplainStore,
     .without = WithoutStore,
     .describe = [](const Demand&) { return std::string("run the ranks' store"); }},
    {.reason = Reason::kPrecision,
     .is_asked = [](const Demand& demand) { return !demand.precision.empty(); },
     .lack = CannotCompute,
     .explain = ExplainPrecision,
     .without = WithoutPrecision,
     .describe = [](const Demand& demand) { return "compute in " + demand.precision; }},
};

}  // namespace

std::span<const Ability> Abilities() { return kAbilities; }

std::string LackOf(const v1::NodeFacts& facts, const Demand& demand) {
  for (const Ability& ability : kAbilities) {
    if (std::string lack = ability.lack(facts, demand); !lack.empty()) return lack;
  }
  return "";
}

std::vector<Lack> NodesThatLack(const SchedulingState& state, const Ability& ability,
                                const Demand& demand) {
  std::vector<Lack> lacks;
  for (const auto& [name, node] : state.nodes) {
    const v1::NodeFacts& facts = node.record.facts();
    std::string what = ability.lack(facts, demand);
    if (!what.empty()) lacks.push_back(ability.explain(facts, std::move(what), demand));
  }
  return lacks;
}

std::string DescribeLacks(const std::vector<Lack>& lacks) {
  std::vector<std::string> texts;
  for (const Lack& each : lacks) {
    if (texts.size() == kNodesExplained) {
      texts.push_back(absl::StrCat(lacks.size() - kNodesExplained, " more"));
      break;
    }
    texts.push_back(absl::StrCat(each.node, " cannot ", each.what, ": ", each.why));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace muster::coordinator
