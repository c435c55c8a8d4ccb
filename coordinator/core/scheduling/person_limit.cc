// In a project that limits its people, the jobs of one person never have more devices, and are never more, than that at
// once. A job that waits for it keeps the same person's later jobs of its kind back: otherwise small ones could keep it
// waiting forever. Jobs of others pass.
#include <memory>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/text/text.h"
#include "coordinator/core/scheduling/policies.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {
namespace {

class PersonLimit : public Policy {
 public:
  explicit PersonLimit(const Ground& ground) : ground_(ground) {}

  bool Allows(Candidate& job) override {
    const ProjectShares& shares = ground_.state.projects;
    const std::string& project = ProjectOf(job.job);
    const uint32_t devices = PersonLimitOf(shares, project, job.kind());
    const uint32_t jobs = PersonJobsOf(shares, project);
    if (devices == 0 && jobs == 0) return true;
    const ProjectUse::OfPerson use = ground_.use.Of(project, OwnerKey(job.job), job.kind());
    const bool fits = (devices == 0 || use.devices + LeastDevices(job.demand().shape) <= devices) &&
                      (jobs == 0 || use.jobs + 1 <= jobs);
    if (!fits) limited_.insert(LineOf(job));
    return fits && !limited_.contains(LineOf(job));
  }
  Blocker Why(Candidate& job) override {
    const ProjectShares& shares = ground_.state.projects;
    const std::string& project = ProjectOf(job.job);
    const uint32_t devices = PersonLimitOf(shares, project, job.kind());
    const uint32_t jobs = PersonJobsOf(shares, project);
    return MakeBlocker(
        Reason::kPersonLimit,
        absl::StrCat("one person has at most ",
                     devices > 0 ? absl::StrCat(devices, " ", job.kind()) : "",
                     devices > 0 && jobs > 0 ? " and " : "",
                     jobs > 0 ? common::Counted(jobs, "job") : "", " in project ", project));
  }

 private:
  using Line = std::tuple<std::string, std::string, std::string>;
  static Line LineOf(Candidate& job) { return {ProjectOf(job.job), OwnerKey(job.job), job.kind()}; }

  const Ground& ground_;
  std::set<Line> limited_;  // the first of them was kept back in this pass
};

}  // namespace

std::unique_ptr<Policy> MakePersonLimit(Ground& ground) {
  return std::make_unique<PersonLimit>(ground);
}

}  // namespace muster::coordinator
