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

std::string Needs(const v1::Shape& shape, const std::string& kind) {
  return absl::StrCat("needs ", job::DescribeDemand(shape, kind));
}

v1::Shape WithoutLimits(v1::Shape shape) {
  shape.clear_limits();
  return shape;
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
std::string DescribeUnusable(const ClusterState& state, const v1::Shape& shape) {
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
    } else if (const std::string what = CannotLimit(node.record.facts(), shape.limits());
               !what.empty()) {
      nodes.push_back(absl::StrCat(name, " cannot limit ", what));
    }
  }
  return nodes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(nodes, ", "), ")");
}

// "node4 (declared dead by uid:0, 2026-11-22 14:02 UTC)", or several: the nodes out of service that
// have what the shape asks for.
std::string DescribeAbsent(const ClusterState& state, const v1::Shape& shape,
                           const std::string& kind) {
  std::vector<std::string> nodes;
  size_t absent = 0;
  for (const Capacity& capacity : Capacities(state, {}, shape, kind, Which::kEver)) {
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

bool HasRoom(const ClusterState& state, const v1::Shape& shape, const std::string& kind,
             Which which) {
  return Place(shape, Capacities(state, {}, shape, kind, which), {}).has_value();
}

}  // namespace

std::string Blocked(const ClusterState& state, const Usage& usage, const v1::Shape& shape,
                    const std::string& kind) {
  const std::string needs = Needs(shape, kind);
  if (state.nodes.empty()) return absl::StrCat(needs, "; no node is registered yet");
  const std::vector<Capacity> free = Capacities(state, usage, shape, kind, Which::kFreeNow);
  const bool fits_but_for_addresses = Place(shape, free, {}).has_value();
  return absl::StrCat(needs, "; free now: ", DescribeCapacities(free),
                      DescribeUnusable(state, shape), fits_but_for_addresses ? ", but " : "",
                      fits_but_for_addresses ? kNeedsAddresses : "");
}

std::string BlockedReason(const ClusterState& state, const v1::JobRecord& job) {
  const v1::Shape& shape = job.spec().shape();
  if (std::string aside = WhyAside(state, shape); !aside.empty()) return aside;
  const Usage usage = UsageOf(state);
  const std::string kind = ResolveKind(state, shape.device());
  if (Fit(state, usage, shape, kind, Which::kFreeNow, {}).has_value()) return "";
  return Blocked(state, usage, shape, kind);
}

std::string WhyAside(const ClusterState& state, const v1::Shape& shape) {
  if (state.nodes.empty()) return "";
  const std::string kind = ResolveKind(state, shape.device());
  if (Fit(state, {}, shape, kind, Which::kInService, {}).has_value()) return "";
  const std::string needs = Needs(shape, kind);
  if (HasRoom(state, shape, kind, Which::kInService)) {
    return absl::StrCat(needs, "; ", kNeedsAddresses);
  }
  if (const std::string never = NeverFits(state, shape); !never.empty()) {
    return absl::StrCat(needs, "; ", never);
  }
  return absl::StrCat(needs, "; waits for ", DescribeAbsent(state, shape, kind));
}

bool AsideReasons::IsKnown(const v1::Shape& shape) const {
  const auto known = by_shape_.find(shape.SerializeAsString());
  return known != by_shape_.end() && !known->second.empty();
}

const std::string& AsideReasons::Of(const ClusterState& state, const v1::Shape& shape) {
  const auto [known, fresh] = by_shape_.try_emplace(shape.SerializeAsString());
  if (fresh) known->second = WhyAside(state, shape);
  if (!known->second.empty()) ++passed_;
  return known->second;
}

bool NeverForItsLimits(const ClusterState& state, const v1::Shape& shape) {
  const std::string kind = ResolveKind(state, shape.device());
  return shape.has_limits() && !HasRoom(state, shape, kind, Which::kEver) &&
         HasRoom(state, WithoutLimits(shape), kind, Which::kEver);
}

std::string NeverFits(const ClusterState& state, const v1::Shape& shape) {
  if (state.nodes.empty()) return "";
  const std::string kind = ResolveKind(state, shape.device());
  if (HasRoom(state, shape, kind, Which::kEver)) return "";
  if (NeverForItsLimits(state, shape)) {
    return absl::StrCat(
        "the nodes that can enforce its limits (", job::DescribeLimits(shape.limits()),
        ") can hold: ", DescribeCapacities(Capacities(state, {}, shape, kind, Which::kEver)), "; ",
        DescribeNodesWithoutLimits(NodesWithoutLimits(state, shape.limits())));
  }
  return absl::StrCat("it would not fit even if all registered nodes were free; they can hold: ",
                      DescribeCapacities(Capacities(state, {}, shape, kind, Which::kEver)));
}

}  // namespace muster::coordinator
