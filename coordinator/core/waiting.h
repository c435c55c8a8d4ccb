// What a queued job is waiting for, in one sentence that a person can act on.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/core/placement.h"
#include "coordinator/core/state.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace muster::coordinator {

// What the job waits for if it is at the head: "needs 8 gpu; free now: 5 (node-b 3, node-a 2)", or
// WhyAside. Empty if it fits.
std::string BlockedReason(const ClusterState& state, const v1::JobRecord& job);

// The same for a demand that is known to fit at some point but not now.
std::string Blocked(const ClusterState& state, const Usage& usage, const Demand& demand,
                    const std::string& kind);

// Whether a reason is one of Blocked and WhyAside, which a change of nodes or of the queue may make
// wrong.
bool IsOfCapacity(std::string_view reason);

// Why a job of this demand lets later jobs go first: the nodes in service could not hold it even if
// all were idle. "needs 8 gpu; waits for node4 (declared dead by uid:0, 2026-11-22 14:02 UTC)".
// Empty if they could, or if no node is registered. Independent of what is running, so that the
// journal has it once and not at every job's end.
std::string WhyAside(const ClusterState& state, const Demand& demand);

// Why the registered nodes could never hold the job, with the largest that fits; empty if they
// could, or if none is registered.
std::string NeverFits(const ClusterState& state, const Demand& demand);

// Whether the nodes could hold the shape at some point, and only its limits are in the way.
bool NeverForItsLimits(const ClusterState& state, const Demand& demand);

// Whether the nodes could hold the shape at some point, and only what the job brings along is in
// the way: code, setup or a container that too few of them can prepare.
bool NeverForItsPreparation(const ClusterState& state, const Demand& demand);

using Details = google::protobuf::RepeatedPtrField<std::string>;
// Why a QUEUED job has not started, with its place in the queue; adds to `details` what helps to
// see the reason (why.cc).
std::string WhyQueued(const ClusterState& state, const v1::JobRecord& job, Details* details);

// One walk along the queue past the jobs that step aside, evaluating each demand once for as long as the nodes stay as
// they are: many jobs wait for the same dead node, and every end of a job is a reason to look again.
class AsideReasons {
 public:
  // What is known, and where what is found out is kept.
  explicit AsideReasons(Asides& known) : known_(known) {}

  // Jobs of this demand have stepped aside already.
  bool IsKnown(const Demand& demand) const;
  // WhyAside. Counts the job as passed if it steps aside.
  const std::string& Of(const ClusterState& state, const Demand& demand);
  // The job has stepped aside before, with its reason kept: it is passed without another look.
  bool Pass(uint64_t job);
  void Keep(uint64_t job) { known_.jobs.insert(job); }
  size_t passed() const { return passed_; }
  // Bounds the cost per turn of thousands of jobs that wait for a dead node. Jobs further back wait
  // for them.
  bool IsEnough() const { return passed_ >= kPassedMax; }

 private:
  static constexpr size_t kPassedMax = 1'000;
  static constexpr size_t kDemandsMax = 10'000;
  Asides& known_;
  size_t passed_ = 0;
};

}  // namespace muster::coordinator
