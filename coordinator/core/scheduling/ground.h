// What policies look at: the state, the devices that this pass has assigned, the places that it holds, and the job
// whose turn it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/core/scheduling/demand.h"
#include "coordinator/core/scheduling/held_place.h"
#include "coordinator/core/scheduling/placement.h"
#include "coordinator/core/scheduling/project_use.h"
#include "coordinator/core/state/asides.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

class Candidate;

class Ground {
 public:
  // limit: jobs: jobs for which a scheduling pass holds a place; others wait without one
  static constexpr size_t kPlacesMax = 8;
  // limit: jobs: the same, with those for which others give way
  static constexpr size_t kPlacesWithClaimsMax = 24;
  // limit: jobs: nodes that a scheduling pass looks at, over all jobs; jobs behind them wait
  static constexpr size_t kLooksMax = 400'000;

  Ground(const SchedulingState& state, Asides& found, Now now);

  const SchedulingState& state;
  const Now now;
  AsideMemo memo;
  const bool any_in_service;  // of the nodes
  ProjectUse use;  // devices of each project, of live attempts and those that started in this pass

  // What a job that names no kind gets (ResolveKind).
  const std::string& usual_kind();
  const std::string& KindOf(const v1::JobRecord& job);

  // Searches of places cost something for each node. Once a pass has spent what it may, it ends.
  void Spend(size_t searches) { looks_ += searches * (state.nodes.size() + 1); }
  size_t looks() const { return looks_; }
  bool is_spent() const { return looks_ > kLooksMax; }

  // The devices that the job cannot get now: of live attempts, of those that started in this pass, and of places
  // ahead of it that it would keep from their holders.
  const Usage& UsageFor(Candidate& job);
  // The same without places: what is in use.
  const Usage& InUse() { return UsageWithout(0); }
  // At a glance: whether as many devices are free in all as the job needs at least.
  bool HasEnoughFor(Candidate& job);
  // Which places are held back from the job: bit i for places()[i].
  uint32_t HeldFrom(Candidate& job);
  // How long a job would have to take to keep no place from its holder; nullopt: none is held back from it, or not for
  // long enough.
  std::optional<int64_t> TimeInPlaces(Candidate& job);

  // The job's turn has come: what is held later is held behind it.
  void Visit(Candidate& job);
  bool WasVisited(uint64_t job) const { return visited_.contains(job); }
  // Whether a job of its project waits ahead of it for devices of its kind.
  bool IsBehind(Candidate& job);
  // What is held for that job, or else for another one ahead whose place is held back from this job; null: nothing.
  const HeldPlace* PlaceAhead(Candidate& job);
  const HeldPlace* PlaceOfHolder(uint64_t job) const;
  const std::vector<HeldPlace>& places() const { return places_; }

  void Start(const v1::JobRecord& job, const v1::Attempt& attempt);
  size_t starts() const { return started_.size(); }
  bool HasStarted(uint64_t job) const;
  // Holds a place for the first waiting job of its project and kind, as long as there is room for one more place.
  void Wait(Candidate& job);

 private:
  struct Visited {
    size_t places = 0;    // how many were held before
    bool behind = false;  // a job of its project and kind waited already
  };
  size_t PlacesAhead(const v1::JobRecord& job) const;
  const Usage& UsageWithout(uint32_t places);
  std::optional<HeldPlace> PlaceOfClaim(Candidate& job);
  std::string_view LineOf(const v1::JobRecord& job) const;
  uint64_t FreeOf(uint32_t places, const std::string& kind);
  const std::vector<Occupant>& occupants();

  const bool one_queue_;
  std::string usual_kind_;
  size_t looks_ = 0;
  std::map<uint32_t, Usage> usages_;  // by the places that count as in use
  struct Free {
    uint32_t places;  // as above
    std::string kind;
    uint64_t devices;  // of usable nodes
  };
  std::vector<Free> free_;
  std::vector<HeldPlace> places_;
  // Project and kind of which a job waits for devices; of the jobs' records.
  std::set<std::pair<std::string_view, std::string_view>> waiting_;
  std::unordered_map<uint64_t, Visited> visited_;
  std::optional<std::vector<Occupant>> occupants_;
  std::deque<std::pair<const v1::JobRecord*, v1::Attempt>> started_;  // in this pass
};

// The job whose turn it is. Costly properties are computed when they are first used.
class Candidate {
 public:
  Candidate(Ground& ground, const v1::JobRecord& job) : job(job), ground_(ground) {}

  const v1::JobRecord& job;
  const Demand& demand();
  const std::string& demand_key();
  const std::string& kind();  // of its devices
  std::string Needs();        // "needs 8 gpu"
  // How long it would have its devices; nullopt: nothing is known.
  std::optional<int64_t> expected_run_ms();

  std::vector<Share> shares;  // where its ranks go, once devices.cc allows it

 private:
  Ground& ground_;
  std::optional<Demand> demand_;
  std::optional<std::optional<int64_t>> run_ms_;
  std::string key_;
};

}  // namespace muster::coordinator
