// A gang starts once all its ranks get free devices, on nodes that have the required abilities. If the nodes in
// service could not hold it even if all were idle, that is its reason, regardless of running jobs: so the
// journal has the reason once, not again whenever a job ends.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "coordinator/core/scheduling/abilities.h"
#include "coordinator/core/scheduling/fit.h"
#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {
namespace {

constexpr size_t kNodesNamed = 5;

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

// Why placement skips the node now: "is draining", "is not connected". Empty: it does not.
std::string WhyUnusable(const Node& node, const Demand& demand) {
  if (node.record.state() == v1::NODE_STATE_LOST) {
    return absl::StrCat("is lost: ", node.record.reason());
  }
  if (node.record.draining()) return absl::StrCat("is ", DescribeDrain(node.record));
  if (!node.record.connected()) return "is not connected";
  if (node.record.state() == v1::NODE_STATE_SUSPECT) return "is silent";
  if (!node.cleared) return "is being cleared of older ranks";
  const std::string lack = LackOf(node.record.facts(), demand);
  return lack.empty() ? "" : absl::StrCat("cannot ", lack);
}

// " (node-b is draining, node-c is not connected)".
std::string DescribeUnusable(const SchedulingState& state, const Demand& demand) {
  std::vector<std::string> nodes;
  for (const auto& [name, node] : state.nodes) {
    if (nodes.size() == kNodesNamed) break;
    const std::string why = WhyUnusable(node, demand);
    if (!why.empty()) nodes.push_back(absl::StrCat(name, " ", why));
  }
  return nodes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(nodes, ", "), ")");
}

// "node4 (declared dead by uid:0, 2026-11-22 14:02 UTC)", or several: the nodes out of service that
// have what the shape asks for.
std::string DescribeAbsent(const SchedulingState& state, const Demand& demand,
                           const std::string& kind) {
  std::vector<std::string> nodes;
  size_t absent = 0;
  for (const Capacity& capacity : Capacities(state, {}, demand, kind, Which::kEver)) {
    const Node& node = *capacity.at;
    if (IsInService(node) || ++absent > kNodesNamed) continue;
    const bool lost = node.record.state() == v1::NODE_STATE_LOST;
    nodes.push_back(absl::StrCat(std::string(capacity.node), " (",
                                 lost ? DescribeLoss(node.record) : DescribeDrain(node.record),
                                 ")"));
  }
  if (absent > kNodesNamed) nodes.push_back(absl::StrCat(absent - kNodesNamed, " more"));
  return absl::StrCat(absent > 1 ? "nodes that are out of service: " : "",
                      absl::StrJoin(nodes, ", "));
}

bool HasRoom(const SchedulingState& state, const Demand& demand, const std::string& kind,
             Which which) {
  return Place(demand.shape, Capacities(state, {}, demand, kind, which), {}).has_value();
}

// The reason if the registered nodes could not hold the job even if all were free, with the largest
// job that fits.
Blocker ExplainNever(const SchedulingState& state, Candidate& job) {
  const Demand& demand = job.demand();
  const std::string capacities =
      DescribeCapacities(Capacities(state, {}, demand, job.kind(), Which::kEver));
  for (const Ability& ability : Abilities()) {
    if (!ability.is_asked(demand) ||
        !HasRoom(state, ability.without(demand), job.kind(), Which::kEver)) {
      continue;
    }
    const std::vector<Lack> lacks = NodesThatLack(state, ability, demand);
    Blocker blocker = MakeBlocker(ability.reason,
                                  absl::StrCat(ability.describe(demand), " can hold: ", capacities,
                                               "; ", DescribeLacks(lacks)),
                                  job.Needs());
    if (!lacks.empty()) {
      const Lack& first = lacks.front();
      blocker.first_fix =
          first.is_of_job ? first.fix : absl::StrCat("on ", first.node, ": ", first.fix);
    }
    return blocker;
  }
  const size_t nodes = state.nodes.size();
  const bool too_few = static_cast<size_t>(demand.shape.min_nodes()) > nodes;
  return MakeBlocker(Reason::kTooLarge,
                     !too_few     ? absl::StrCat("; they can hold: ", capacities)
                     : nodes == 1 ? ": there is 1 node"
                                  : absl::StrCat(": there are ", nodes, " nodes"),
                     job.Needs());
}

// Why the nodes in service could not hold the job even if all were idle; none if they could, or if no node is
// registered.
std::optional<Blocker> WhyAside(const SchedulingState& state, Candidate& job) {
  const Demand& demand = job.demand();
  if (state.nodes.empty() ||
      Fit(state, {}, demand, job.kind(), Which::kInService, {}).has_value()) {
    return std::nullopt;
  }
  if (HasRoom(state, demand, job.kind(), Which::kInService)) {
    return MakeBlocker(Reason::kAddresses, "", job.Needs());
  }
  if (!HasRoom(state, demand, job.kind(), Which::kEver)) return ExplainNever(state, job);
  return MakeBlocker(Reason::kAbsentNodes, DescribeAbsent(state, demand, job.kind()), job.Needs());
}

class Devices : public Policy {
 public:
  explicit Devices(Ground& ground) : ground_(ground) {}

  bool Allows(Candidate& job) override {
    // Saves the search for every further job that waits for the same dead node.
    if (!ground_.HasEnoughFor(job)) return false;
    const std::optional<Blocker>* known = ground_.memo.Find(job.demand_key());
    if (known != nullptr && known->has_value()) return false;
    // In a pass devices are only taken, so what did not fit once does not fit later.
    const std::pair<std::string, uint32_t> tried(job.demand_key(), ground_.HeldFrom(job));
    if (refused_.contains(tried)) return false;
    ground_.Spend(1);
    auto shares = Fit(ground_.state, ground_.UsageFor(job), job.demand(), job.kind(),
                      Which::kFreeNow, NodesOfLastAttempt(job.job));
    if (!shares.has_value()) {
      refused_.insert(tried);
      return false;
    }
    job.shares = *std::move(shares);
    return true;
  }

  bool IsAboutDevices() const override { return true; }

  Blocker Why(Candidate& job) override {
    if (std::optional<Blocker> aside = WhyLasting(job)) return *std::move(aside);
    if (ground_.state.nodes.empty()) return MakeBlocker(Reason::kNoNodes, "", job.Needs());
    const Demand& demand = job.demand();
    const std::vector<Capacity> free =
        Capacities(ground_.state, ground_.InUse(), demand, job.kind(), Which::kFreeNow);
    const bool fits_but_for_addresses = Place(demand.shape, free, {}).has_value();
    if (ground_.HeldFrom(job) != 0 &&
        Fit(ground_.state, ground_.InUse(), demand, job.kind(), Which::kFreeNow, {}).has_value()) {
      return MakeBlocker(Reason::kHeld, "", job.Needs());
    }
    return MakeBlocker(
        Reason::kDevices,
        absl::StrCat(DescribeCapacities(free), DescribeUnusable(ground_.state, demand),
                     fits_but_for_addresses ? ", but " : "",
                     fits_but_for_addresses ? RowOf(Reason::kAddresses).text : ""),
        job.Needs());
  }

  std::optional<Blocker> WhyLasting(Candidate& job) override {
    if (ground_.memo.KnowsOther(job.job.id())) return std::nullopt;
    const std::string& key = job.demand_key();
    const std::optional<Blocker>* known = ground_.memo.Find(key);
    std::optional<Blocker> aside =
        known != nullptr ? *known : ground_.memo.Keep(key, WhyAside(ground_.state, job));
    if (!aside.has_value() && !ground_.state.nodes.empty()) ground_.memo.KeepOther(job.job.id());
    return aside;
  }

 private:
  Ground& ground_;
  // Demands for which there was no place in this pass, without which held places.
  std::set<std::pair<std::string, uint32_t>> refused_;
};

}  // namespace

std::unique_ptr<Policy> MakeDevices(Ground& ground) { return std::make_unique<Devices>(ground); }

}  // namespace muster::coordinator
