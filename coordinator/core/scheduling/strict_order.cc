// The first job that waits for running ones holds back all jobs behind it, so that a large gang does not wait
// forever while small ones pass it. A job that could not start regardless of running jobs lets others pass, and
// keeps its place.
#include <memory>
#include <optional>

#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {
namespace {

// Bounds the cost per turn when thousands of jobs wait for a dead node. Jobs further back wait for them.
// limit: jobs: queued jobs skipped per scheduling pass; jobs behind them wait
constexpr size_t kPassedMax = 1'000;

class StrictOrder : public Policy {
 public:
  explicit StrictOrder(const Ground& ground) : any_in_service_(ground.any_in_service) {}

  bool Allows(Candidate& job) override {
    return !last_.has_value() || !(*last_ < PlaceOf(job.job));
  }
  Blocker Why(Candidate&) override { return MakeBlocker(Reason::kBehindOthers); }
  void OnWait(const v1::JobRecord& job, bool others_pass) override {
    if (others_pass) ++passed_;
    if (!others_pass || !any_in_service_ || passed_ >= kPassedMax) last_ = PlaceOf(job);
  }
  std::optional<QueuePlace> EndsAt() const override { return last_; }

 private:
  const bool any_in_service_;
  size_t passed_ = 0;
  std::optional<QueuePlace> last_;
};

}  // namespace

std::unique_ptr<Policy> MakeStrictOrder(Ground& ground) {
  return std::make_unique<StrictOrder>(ground);
}

}  // namespace muster::coordinator
