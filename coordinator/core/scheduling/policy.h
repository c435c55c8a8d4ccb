// A policy is one rule of scheduling: it may keep a job from starting, and then gives the reason. Each is one
// file and one row in policies.cc; a job starts when no policy objects. Every pass (pass.h) makes its own
// policies, so their counts start over with each pass, and nothing they know outlives it except through the
// state.
#pragma once

#include <optional>

#include "coordinator/core/scheduling/ground.h"
#include "coordinator/core/state/blockers.h"

namespace muster::coordinator {

class Policy {
 public:
  virtual ~Policy() = default;
  // Whether the job may start now.
  virtual bool Allows(Candidate& job) = 0;
  // What keeps back a job that is not allowed; if there are several reasons, the one that lasts
  // longest.
  virtual Blocker Why(Candidate& job) = 0;
  // Whether a job that it does not allow waits for devices, so that a place is held for it.
  virtual bool IsAboutDevices() const { return false; }
  // Otherwise: whether the jobs of its project and kind behind it wait for it, too.
  virtual bool EndsLine(Candidate&) { return false; }
  // Why the job could not start, regardless of running and waiting jobs. None: it could.
  virtual std::optional<Blocker> WhyLasting(Candidate&) { return std::nullopt; }
  // A job waits in this pass.
  virtual void OnWait(Candidate&, bool /*others_pass*/) {}
  // No further job starts in this pass.
  virtual bool EndsPass() const { return false; }
};

}  // namespace muster::coordinator
