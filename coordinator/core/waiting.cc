#include "coordinator/core/waiting.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/job/shape.h"
#include "coordinator/core/fit.h"
#include "coordinator/core/limit_facts.h"

namespace muster::coordinator {
namespace {

constexpr size_t kNodesNamed = 5;
constexpr char kNeedsAddresses[] =
    "a job on several nodes needs addresses that the nodes can reach: start those workers with "
    "--advertise ADDR";

constexpr char kNeeds[] = "needs ";

std::string Needs(const v1::Shape& shape, const std::string& kind) {
  return absl::StrCat(kNeeds, job::DescribeDemand(shape, kind));
}

Demand WithoutLimits(Demand demand) {
  demand.shape.clear_limits();
  return demand;
}

Demand WithoutPreparation(Demand demand) {
  demand.prepares = demand.container = false;
  return demand;
}

std::string DescribeDrain(const v1::NodeRecord& node) {
  return absl::StrCat("draining", node.drain_reason().empty() ? "" : ": ", node.drain_reason());
}

// "declared dead by uid:0, 2026-11-22 14:02 UTC". The text is kept for days and read anywhere, so
// it includes the date and the time zone.
std::string DescribeLoss(const v1::NodeRecord& node) {
  if (node.state_ms() == 0) return node.reason();
  return absl::StrCat(node.reason(), ", ",
                      absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromUnixMillis(node.state_ms()),
                                       absl::UTCTimeZone()));
}

// " (node-b is draining, node-c is not connected)": nodes that placement skips.
std::string DescribeUnusable(const ClusterState& state, const Demand& demand) {
  std::vector<std::string> nodes;
  for (const auto& [name, node] : state.nodes) {
    if (nodes.size() == kNodesNamed) break;
    if (node.record.state() == v1::NODE_STATE_LOST) {
      nodes.push_back(absl::StrCat(name, " is lost: ", node.record.reason()));
    } else if (node.record.draining()) {
      nodes.push_back(absl::StrCat(name, " is ", DescribeDrain(node.record)));
    } else if (!node.record.connected()) {
      nodes.push_back(absl::StrCat(name, " is not connected"));
    } else if (node.record.state() == v1::NODE_STATE_SUSPECT) {
      nodes.push_back(absl::StrCat(name, " is silent"));
    } else if (!node.cleared) {
      nodes.push_back(absl::StrCat(name, " is being cleared of older ranks"));
    } else if (const std::string what = CannotLimit(node.record.facts(), demand.shape.limits());
               !what.empty()) {
      nodes.push_back(absl::StrCat(name, " cannot limit ", what));
    } else if (const std::string lack = CannotPrepare(node.record.facts(), demand); !lack.empty()) {
      nodes.push_back(absl::StrCat(name, " cannot ", lack));
    }
  }
  return nodes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(nodes, ", "), ")");
}

// "node4 (declared dead by uid:0, 2026-11-22 14:02 UTC)", or several: the nodes out of service that
// have what the shape asks for.
std::string DescribeAbsent(const ClusterState& state, const Demand& demand,
                           const std::string& kind) {
  std::vector<std::string> nodes;
  size_t absent = 0;
  for (const Capacity& capacity : Capacities(state, {}, demand, kind, Which::kEver)) {
    const Node& node = state.nodes.at(capacity.node);
    if (capacity.ranks == 0 || IsInService(node) || ++absent > kNodesNamed) continue;
    const bool lost = node.record.state() == v1::NODE_STATE_LOST;
    nodes.push_back(absl::StrCat(
        capacity.node, " (", lost ? DescribeLoss(node.record) : DescribeDrain(node.record), ")"));
  }
  if (absent > kNodesNamed) nodes.push_back(absl::StrCat(absent - kNodesNamed, " more"));
  return absl::StrCat(absent > 1 ? "nodes that are out of service: " : "",
                      absl::StrJoin(nodes, ", "));
}

bool HasRoom(const ClusterState& state, const Demand& demand, const std::string& kind,
             Which which) {
  return Place(demand.shape, Capacities(state, {}, demand, kind, which), {}).has_value();
}

}  // namespace

std::string Blocked(const ClusterState& state, const Usage& usage, const Demand& demand,
                    const std::string& kind) {
  const std::string needs = Needs(demand.shape, kind);
  if (state.nodes.empty()) return absl::StrCat(needs, "; no node is registered yet");
  const std::vector<Capacity> free = Capacities(state, usage, demand, kind, Which::kFreeNow);
  const bool fits_but_for_addresses = Place(demand.shape, free, {}).has_value();
  return absl::StrCat(needs, "; free now: ", DescribeCapacities(free),
                      DescribeUnusable(state, demand), fits_but_for_addresses ? ", but " : "",
                      fits_but_for_addresses ? kNeedsAddresses : "");
}

bool IsOfCapacity(std::string_view reason) { return reason.starts_with(kNeeds); }

std::string BlockedReason(const ClusterState& state, const v1::JobRecord& job) {
  const Demand demand = DemandOf(job.spec());
  if (std::string aside = WhyAside(state, demand); !aside.empty()) return aside;
  const Usage usage = UsageOf(state);
  const std::string kind = ResolveKind(state, demand.shape.device());
  if (Fit(state, usage, demand, kind, Which::kFreeNow, {}).has_value()) return "";
  return Blocked(state, usage, demand, kind);
}

std::string WhyAside(const ClusterState& state, const Demand& demand) {
  if (state.nodes.empty()) return "";
  const std::string kind = ResolveKind(state, demand.shape.device());
  if (Fit(state, {}, demand, kind, Which::kInService, {}).has_value()) return "";
  const std::string needs = Needs(demand.shape, kind);
  if (HasRoom(state, demand, kind, Which::kInService)) {
    return absl::StrCat(needs, "; ", kNeedsAddresses);
  }
  if (const std::string never = NeverFits(state, demand); !never.empty()) {
    return absl::StrCat(needs, "; ", never);
  }
  return absl::StrCat(needs, "; waits for ", DescribeAbsent(state, demand, kind));
}

bool AsideReasons::IsKnown(const Demand& demand) const {
  const auto known = known_.by_demand.find(demand.Key());
  return known != known_.by_demand.end() && !known->second.empty();
}

const std::string& AsideReasons::Of(const ClusterState& state, const Demand& demand) {
  if (known_.by_demand.size() >= kDemandsMax) known_.by_demand.clear();
  const auto [known, fresh] = known_.by_demand.try_emplace(demand.Key());
  if (fresh) known->second = WhyAside(state, demand);
  if (!known->second.empty()) ++passed_;
  return known->second;
}

bool AsideReasons::Pass(uint64_t job) {
  if (!known_.jobs.contains(job)) return false;
  ++passed_;
  return true;
}

bool NeverForItsLimits(const ClusterState& state, const Demand& demand) {
  const std::string kind = ResolveKind(state, demand.shape.device());
  return demand.shape.has_limits() && !HasRoom(state, demand, kind, Which::kEver) &&
         HasRoom(state, WithoutLimits(demand), kind, Which::kEver);
}

bool NeverForItsPreparation(const ClusterState& state, const Demand& demand) {
  const std::string kind = ResolveKind(state, demand.shape.device());
  return demand.prepares && !HasRoom(state, demand, kind, Which::kEver) &&
         HasRoom(state, WithoutPreparation(demand), kind, Which::kEver);
}

std::string NeverFits(const ClusterState& state, const Demand& demand) {
  if (state.nodes.empty()) return "";
  const std::string kind = ResolveKind(state, demand.shape.device());
  if (HasRoom(state, demand, kind, Which::kEver)) return "";
  const std::string capacities =
      DescribeCapacities(Capacities(state, {}, demand, kind, Which::kEver));
  if (NeverForItsLimits(state, demand)) {
    return absl::StrCat(
        "the nodes that can enforce its limits (", job::DescribeLimits(demand.shape.limits()),
        ") can hold: ", capacities, "; ",
        DescribeNodesWithoutLimits(NodesWithoutLimits(state, demand.shape.limits())));
  }
  if (NeverForItsPreparation(state, demand)) {
    return absl::StrCat("the nodes that can ", demand.container ? "run containers" : "prepare code",
                        " can hold: ", capacities, "; ",
                        DescribeNodesThatCannotPrepare(NodesThatCannotPrepare(state, demand)));
  }
  const auto least = static_cast<size_t>(demand.shape.min_nodes());
  if (least > state.nodes.size()) {
    return absl::StrCat(
        "it would not fit even if all registered nodes were free: there ",
        state.nodes.size() == 1 ? "is 1 node" : absl::StrCat("are ", state.nodes.size(), " nodes"));
  }
  return absl::StrCat("it would not fit even if all registered nodes were free; they can hold: ",
                      capacities);
}

}  // namespace muster::coordinator
