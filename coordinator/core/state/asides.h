// What the scheduler has found out about the queue and remembers until the nodes change: many jobs may wait for the
// same dead node, and whenever a job ends, the scheduler looks at the queue again. Apply clears it when a node
// changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "coordinator/core/state/blockers.h"

namespace muster::coordinator {

struct Asides {
  // Why jobs of a demand (Demand::Key) wait regardless of running jobs; none: they do not.
  std::unordered_map<std::string, std::optional<Blocker>> by_demand;
  std::unordered_set<uint64_t> jobs;    // in the queue, known to wait regardless of running jobs
  std::unordered_set<uint64_t> others;  // in the queue, known not to
};

// Reads what is known, and stores what is found out in the place that its owner chose: the state or a separate
// map.
class AsideMemo {
 public:
  // Both may be the same.
  AsideMemo(const Asides& known, Asides& found) : known_(known), found_(found) {}

  bool Knows(uint64_t job) const { return known_.jobs.contains(job) || found_.jobs.contains(job); }
  void Keep(uint64_t job) { found_.jobs.insert(job); }
  bool KnowsOther(uint64_t job) const {
    return known_.others.contains(job) || found_.others.contains(job);
  }
  void KeepOther(uint64_t job) { found_.others.insert(job); }
  // Null: no job of the demand has been looked at. Valid until Keep.
  const std::optional<Blocker>* Find(const std::string& demand) const {
    if (const auto at = found_.by_demand.find(demand); at != found_.by_demand.end()) {
      return &at->second;
    }
    const auto at = known_.by_demand.find(demand);
    return at == known_.by_demand.end() ? nullptr : &at->second;
  }
  const std::optional<Blocker>& Keep(const std::string& demand, std::optional<Blocker> blocker) {
    if (found_.by_demand.size() >= kDemandsMax) found_.by_demand.erase(found_.by_demand.begin());
    return found_.by_demand[demand] = std::move(blocker);
  }

 private:
  static constexpr size_t kDemandsMax = 10'000;
  const Asides& known_;
  Asides& found_;
};

}  // namespace muster::coordinator
