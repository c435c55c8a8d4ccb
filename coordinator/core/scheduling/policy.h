// A policy is one rule of scheduling: it may keep a job from starting, and then gives the reason. Each is one
// file and one row in policies.cc; a job starts when no policy objects. Every pass (pass.h) makes its own
// policies, so their counts start over with each pass, and nothing they know outlives it except through the
// state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/scheduling/demand.h"
#include "coordinator/core/scheduling/placement.h"
#include "coordinator/core/state/asides.h"
#include "coordinator/core/state/blockers.h"
#include "coordinator/core/state/order.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// What policies look at: the state, and the devices that this pass has assigned.
class Ground {
 public:
  Ground(const SchedulingState& state, Asides& found);

  const SchedulingState& state;
  AsideMemo memo;
  const bool any_in_service;  // of the nodes
  // Devices of live attempts, and of those that started in this pass.
  Usage& usage();

 private:
  std::optional<Usage> usage_;
};

// The job whose turn it is. Costly properties are computed when they are first used.
class Candidate {
 public:
  Candidate(const SchedulingState& state, const v1::JobRecord& job) : job(job), state_(state) {}

  const v1::JobRecord& job;
  const Demand& demand();
  const std::string& demand_key();
  const std::string& kind();  // of its devices
  std::string Needs();        // "needs 8 gpu"

  std::vector<Share> shares;  // where its ranks go, once devices.cc allows it

 private:
  const SchedulingState& state_;
  std::optional<Demand> demand_;
  std::string key_;
  std::string kind_;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Whether the job may start now.
  virtual bool Allows(Candidate& job) = 0;
  // What keeps back a job that is not allowed; if there are several reasons, the one that lasts
  // longest.
  virtual Blocker Why(Candidate& job) = 0;
  // Why the job could not start, regardless of running and waiting jobs. None: it could.
  virtual std::optional<Blocker> WhyLasting(Candidate&) { return std::nullopt; }
  // A job starts in this pass, or waits.
  virtual void OnStart(const v1::JobRecord&, const v1::Attempt&) {}
  virtual void OnWait(const v1::JobRecord&, bool /*others_pass*/) {}
  // The place in the queue behind which no job starts in this pass, so the pass ends there.
  virtual std::optional<QueuePlace> EndsAt() const { return std::nullopt; }
};

}  // namespace muster::coordinator
