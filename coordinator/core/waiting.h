// What a queued job waits for, in one sentence that a person can act on.
#pragma once

#include <string>
#include <unordered_map>

#include "coordinator/core/placement.h"
#include "coordinator/core/state.h"

namespace muster::coordinator {

// What the job waits for if it were at the head: "needs 8 gpu; free now: 5 (node-b 3, node-a 2)",
// or WhyAside. Empty: it fits.
std::string BlockedReason(const ClusterState& state, const v1::JobRecord& job);

// The same for a shape that is known to fit some day but not now.
std::string Blocked(const ClusterState& state, const Usage& usage, const v1::Shape& shape,
                    const std::string& kind);

// Why a job of this shape lets those behind it go first: no set of the nodes in service could hold
// it, were they all idle. "needs 8 gpu; waits for node4 (declared dead by uid:0, 2026-11-22 14:02
// UTC)". Empty: some set could, or no node is registered. What runs does not change it, so that
// the journal has it once and not with every job's end.
std::string WhyAside(const ClusterState& state, const v1::Shape& shape);

// Why no set of registered nodes could ever hold the shape, with the largest that could; empty:
// some set could, or none is registered.
std::string NeverFits(const ClusterState& state, const v1::Shape& shape);

// One walk along the queue past the jobs that step aside, each shape judged once: many jobs wait
// for the same dead node.
class AsideReasons {
 public:
  // Jobs of this shape stepped aside before.
  bool IsKnown(const v1::Shape& shape) const;
  // WhyAside. Counts the job as passed if it steps aside.
  const std::string& Of(const ClusterState& state, const v1::Shape& shape);
  size_t passed() const { return passed_; }
  // So that thousands which wait for a dead node cost each turn no more than this. Those behind
  // wait for them.
  bool IsEnough() const { return passed_ >= kPassedMax; }

 private:
  static constexpr size_t kPassedMax = 1'000;
  std::unordered_map<std::string, std::string> by_shape_;
  size_t passed_ = 0;
};

}  // namespace muster::coordinator
