#include "coordinator/core/scheduling/held_place.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/scheduling/fit.h"

namespace muster::coordinator {
namespace {

bool EndsBefore(const Occupant& a, const Occupant& b) {
  const auto key = [](const Occupant& each) {
    const bool unknown = !each.end.at_mono_ms.has_value();
    return std::tuple(unknown, unknown ? each.end.since_mono_ms : *each.end.at_mono_ms,
                      each.job->id());
  };
  return key(a) < key(b);
}

Usage UsageOf(const std::vector<HeldPlace>& places) {
  Usage usage;
  for (const HeldPlace& place : places) usage.Add(place.kind, place.shares);
  return usage;
}

// What is free over time: after the first occupants have ended, and from some point on with the nodes that cannot
// be used now, because when they return is no better known than an unknown end. The steps are the known ends, the
// return of the nodes, and the unknown ends.
class Future {
 public:
  Future(const SchedulingState& state, const std::vector<Occupant>& occupants,
         const std::vector<HeldPlace>& others, const Demand& demand, const std::string& kind,
         std::vector<std::string> previous)
      : state_(state),
        occupants_(occupants),
        others_(others),
        demand_(demand),
        kind_(kind),
        previous_(std::move(previous)),
        known_(static_cast<size_t>(
            std::count_if(occupants.begin(), occupants.end(),
                          [](const Occupant& each) { return each.end.at_mono_ms.has_value(); }))),
        nodes_(Capacities(state, UsageOf(others), demand, kind, Which::kFreeLater)),
        all_can_meet_(AllCanMeet(nodes_)) {
    CountWhatIsUsed();
  }

  size_t steps() const { return occupants_.size() + 1; }

  // By counting, which is quick: the search asks often.
  bool FitsAfter(size_t step) const {
    if (!all_can_meet_) return SharesAfter(step).has_value();
    std::vector<int64_t> free = free_now_;
    for (size_t i = 0; i < EndedBy(step); ++i) {
      for (const auto& [node, devices] : used_[i]) free[node] += devices;
    }
    const auto per_rank = static_cast<int64_t>(DevicesPerRank(demand_.shape.device()));
    std::vector<Capacity> capacities;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (!is_usable_[node] && !NodesReturn(step)) continue;
      const uint32_t ranks =
          nodes_[node].oversubscribed
              ? nodes_[node].ranks
              : static_cast<uint32_t>(std::max<int64_t>(0, free[node]) / per_rank);
      if (ranks > 0) capacities.emplace_back().ranks = ranks;
    }
    return HasPlace(demand_.shape, std::move(capacities));
  }

  std::optional<std::vector<Share>> SharesAfter(size_t step) const {
    Usage usage;
    for (size_t i = EndedBy(step); i < occupants_.size(); ++i) usage.Add(*occupants_[i].attempt);
    for (const HeldPlace& other : others_) usage.Add(other.kind, other.shares);
    return Fit(state_, usage, demand_, kind_,
               NodesReturn(step) ? Which::kFreeLater : Which::kFreeNow, previous_);
  }

 private:
  bool NodesReturn(size_t step) const { return step > known_; }
  size_t EndedBy(size_t step) const { return NodesReturn(step) ? step - 1 : step; }

  void CountWhatIsUsed() {
    std::unordered_map<std::string_view, size_t> places;
    for (const Capacity& node : nodes_) {
      places.emplace(node.node, free_now_.size());
      free_now_.push_back(static_cast<int64_t>(node.free.size()));
      is_usable_.push_back(IsUsableNow(*node.at));
    }
    for (const Occupant& occupant : occupants_) {
      std::vector<std::pair<size_t, int64_t>>& used = used_.emplace_back();
      for (const v1::NodePart& part : occupant.attempt->parts()) {
        const auto place = places.find(part.node());
        if (part.ended() || part.device_kind() != kind_ || place == places.end()) continue;
        const auto& devices = nodes_[place->second].free;
        const int64_t taken = std::count_if(
            part.device_indexes().begin(), part.device_indexes().end(), [&](uint32_t index) {
              return std::binary_search(devices.begin(), devices.end(), index);
            });
        used.emplace_back(place->second, taken);
        free_now_[place->second] -= taken;
      }
    }
  }

  const SchedulingState& state_;
  const std::vector<Occupant>& occupants_;
  const std::vector<HeldPlace>& others_;
  const Demand& demand_;
  const std::string& kind_;
  const std::vector<std::string> previous_;
  const size_t known_;
  const std::vector<Capacity> nodes_;  // in service, as if nothing ran
  const bool all_can_meet_;
  std::vector<int64_t> free_now_;                              // by node: devices
  std::vector<bool> is_usable_;                                // by node: now
  std::vector<std::vector<std::pair<size_t, int64_t>>> used_;  // by occupant: node, devices
};

// `waits_since`: an occupant that started later passed the holder. If it overstays, that does not make room for more of its
// kind: a stream of them would keep the holder waiting.
void SetTimes(HeldPlace& place, int64_t waits_since, Now now) {
  place.from_mono_ms = place.until_mono_ms = place.not_before_mono_ms = now.mono_ms;
  bool is_known = place.awaited_nodes.empty();
  for (const Occupant& occupant : place.awaited) {
    const ExpectedEnd& end = occupant.end;
    const int64_t at = end.NotBeforeMonoMs(now);
    const bool passed = end.overstays && end.since_mono_ms >= waits_since;
    if (!passed) place.not_before_mono_ms = std::max(place.not_before_mono_ms, at);
    place.from_mono_ms = std::max(*place.from_mono_ms, at);
    place.until_mono_ms = std::max(*place.until_mono_ms, at + end.allowance_ms);
    is_known = is_known && end.at_mono_ms.has_value();
  }
  if (is_known) return;
  place.from_mono_ms.reset();
  place.until_mono_ms.reset();
}

}  // namespace

std::vector<Occupant> OccupantsOf(const SchedulingState& state, Now now) {
  std::vector<Occupant> occupants;
  for (const uint64_t id : state.active) {
    const v1::JobRecord& job = state.jobs.at(id);
    const v1::Attempt* attempt = LiveAttempt(job);
    if (attempt == nullptr) continue;
    const int64_t since = state.timers.at(id).attempt_since_mono_ms;
    occupants.push_back({&job, attempt, EndOf(state, job, *attempt, since, now)});
  }
  std::sort(occupants.begin(), occupants.end(), EndsBefore);
  return occupants;
}

void AddOccupant(std::vector<Occupant>& occupants, Occupant added) {
  const auto at = std::upper_bound(occupants.begin(), occupants.end(), added, EndsBefore);
  occupants.insert(at, std::move(added));
}

std::optional<HeldPlace> FindHeldPlace(const SchedulingState& state,
                                       const std::vector<Occupant>& occupants,
                                       const std::vector<HeldPlace>& others, const Demand& demand,
                                       const std::string& kind, const v1::JobRecord& job, Now now) {
  const Future future(state, occupants, others, demand, kind, NodesOfLastAttempt(job));
  // What fits after some ends also fits after more of them.
  size_t too_few = 0, enough = future.steps();
  while (too_few < enough) {
    const size_t middle = too_few + (enough - too_few) / 2;
    if (future.FitsAfter(middle)) {
      enough = middle;
    } else {
      too_few = middle + 1;
    }
  }
  std::optional<std::vector<Share>> shares = future.SharesAfter(enough);
  if (!shares.has_value()) return std::nullopt;
  HeldPlace place{.holder = PlaceOf(job), .kind = kind, .shares = *std::move(shares)};
  for (const Share& share : place.shares) {
    if (!IsUsableNow(state.nodes.at(share.node))) place.awaited_nodes.push_back(share.node);
  }
  for (const Occupant& occupant : occupants) {
    if (HasDeviceOf(*occupant.attempt, kind, place.shares)) place.awaited.push_back(occupant);
  }
  const auto timers = state.timers.find(job.id());
  SetTimes(place, timers == state.timers.end() ? now.mono_ms : timers->second.state_since_mono_ms,
           now);
  return place;
}

std::string DescribeShares(const std::vector<Share>& shares) {
  constexpr size_t kNodesNamed = 5;
  std::vector<std::string> nodes;
  for (const Share& share : shares) {
    if (nodes.size() < kNodesNamed) nodes.push_back(absl::StrCat(share.node, " ", share.ranks));
  }
  if (shares.size() > nodes.size())
    nodes.push_back(absl::StrCat(shares.size() - nodes.size(), " more"));
  return absl::StrJoin(nodes, ", ");
}

}  // namespace muster::coordinator
