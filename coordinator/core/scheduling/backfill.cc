// The first job that waits for running ones has a place held (held_place.h), one for each kind of device and project, so that a
// large gang does not wait forever while small ones pass it. Jobs behind it start if they leave that place alone or
// are expected to end in time. A job that could not start regardless of running jobs holds nothing, and keeps its
// place in the queue.
#include <memory>

#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {
namespace {

class Backfill : public Policy {
 public:
  explicit Backfill(Ground& ground) : ground_(ground) {}

  bool Allows(Candidate& job) override { return !ended_ || ground_.WasVisited(job.job.id()); }
  Blocker Why(Candidate&) override { return MakeBlocker(Reason::kBehindOthers); }

  void OnWait(Candidate& job, bool others_pass) override {
    if (!others_pass) ground_.Wait(job);
    const bool may_pass = others_pass || ground_.state.settings.backfill;
    ended_ = !ground_.any_in_service || !may_pass || ground_.is_spent();
  }
  bool EndsPass() const override { return ended_; }

 private:
  Ground& ground_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Policy> MakeBackfill(Ground& ground) { return std::make_unique<Backfill>(ground); }

}  // namespace muster::coordinator
