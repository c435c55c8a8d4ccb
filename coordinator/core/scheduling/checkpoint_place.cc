// Of several coordinators that replace each other, each has the checkpoints that were saved while it led. A job whose
// newest one could not be fetched waits until a coordinator leads that has it: it never starts from an older one
// instead, which would undo what it was told is saved, unless a person releases it to start from the beginning.
#include <memory>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {
namespace {

class CheckpointPlace : public Policy {
 public:
  explicit CheckpointPlace(const Ground& ground) : head_(ground.state.settings.head) {}

  bool Allows(Candidate& job) override { return AbsentCheckpoint(job.job, head_) == nullptr; }
  Blocker Why(Candidate& job) override {
    const v1::Checkpoint& absent = *AbsentCheckpoint(job.job, head_);
    const std::string others = OtherHeads(absent, head_);
    return MakeBlocker(Reason::kCheckpointPlace,
                       absl::StrCat("the coordinator ", others, " has its checkpoint of step ",
                                    absent.step(), ", and ", head_, " leads; fix: let ", others,
                                    " lead again, or jobctl release ", job.job.name(),
                                    " --from-scratch to start from the beginning"));
  }
  std::optional<Blocker> WhyLasting(Candidate& job) override {
    if (Allows(job)) return std::nullopt;
    return Why(job);
  }

 private:
  const std::string& head_;
};

}  // namespace

std::unique_ptr<Policy> MakeCheckpointPlace(Ground& ground) {
  return std::make_unique<CheckpointPlace>(ground);
}

}  // namespace muster::coordinator
