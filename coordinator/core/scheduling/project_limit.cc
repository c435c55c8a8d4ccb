// A project never has more devices than its limit, whether others need them or not. A job that may not be asked to give
// way (JobSpec.preemptible: false) starts only within the quota, together with all others of that kind. Such jobs wait for
// jobs of their own project alone, so they hold no place.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {
namespace {

class ProjectLimit : public Policy {
 public:
  explicit ProjectLimit(const Ground& ground) : ground_(ground) {}

  bool Allows(Candidate& job) override {
    return ground_.use.FitsLimit(job.job, job.kind()) &&
           ground_.use.FitsQuotaIfItStays(job.job, job.kind());
  }
  std::optional<Blocker> WhyLasting(Candidate& job) override {
    const std::string& project = ProjectOf(job.job);
    const uint64_t limit = LimitOf(ground_.state.projects, project, job.kind());
    const uint64_t needs = LeastDevices(job.job.spec().shape());
    if (limit == 0 || needs <= limit) return std::nullopt;
    return MakeBlocker(Reason::kOverLimit,
                       absl::StrCat("it needs ", needs, " ", job.kind(),
                                    ", and the limit of project ", project, " is ", limit));
  }
  // Otherwise a stream of small jobs could keep a large one below the limit forever.
  bool EndsLine(Candidate& job) override { return !ground_.use.FitsLimit(job.job, job.kind()); }
  // Without numbers: they change whenever a job of the project starts or ends, and why.cc adds them.
  Blocker Why(Candidate& job) override {
    if (std::optional<Blocker> lasting = WhyLasting(job)) return *std::move(lasting);
    return MakeBlocker(
        ground_.use.FitsLimit(job.job, job.kind()) ? Reason::kProjectQuota : Reason::kProjectLimit,
        ProjectOf(job.job));
  }

 private:
  const Ground& ground_;
};

}  // namespace

std::unique_ptr<Policy> MakeProjectLimit(Ground& ground) {
  return std::make_unique<ProjectLimit>(ground);
}

}  // namespace muster::coordinator
