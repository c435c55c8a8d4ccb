// In a project that limits its people, the jobs of one person never have more devices, and are never more, than that at
// once. A job that waits for it keeps the same person's later jobs of its kind back: otherwise small ones could keep it
// waiting forever. Jobs of others pass.
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

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
    if (!LimitsOf(job).has_value()) return true;
    const auto waits = first_.find(LineOf(job));
    return Fits(job) && (waits == first_.end() || !(waits->second < PlaceOf(job.job)));
  }
  Blocker Why(Candidate& job) override {
    if (std::optional<Blocker> lasting = WhyLasting(job)) return *std::move(lasting);
    return MakeBlocker(Reason::kPersonLimit, Describe(job));
  }
  // The first of its line; what is behind it waits for it.
  void OnWait(Candidate& job, bool) override {
    if (LimitsOf(job).has_value() && !Fits(job) && !WhyLasting(job).has_value())
      first_.try_emplace(LineOf(job), PlaceOf(job.job));
  }
  std::optional<Blocker> WhyLasting(Candidate& job) override {
    const std::optional<Limits> limits = LimitsOf(job);
    const uint64_t needs = LeastDevices(job.job.spec().shape());
    if (!limits.has_value() || limits->devices == 0 || needs <= limits->devices)
      return std::nullopt;
    return MakeBlocker(Reason::kOverLimit,
                       absl::StrCat("it needs ", needs, " ", job.kind(), ", and ", Describe(job)));
  }

 private:
  struct Limits {
    uint32_t devices = 0, jobs = 0;  // 0: none
  };
  using Line = std::tuple<std::string, std::string, std::string>;

  std::optional<Limits> LimitsOf(Candidate& job) const {
    const std::string& project = ProjectOf(job.job);
    const Limits limits{.devices = PersonLimitOf(ground_.state.projects, project, job.kind()),
                        .jobs = PersonJobsOf(ground_.state.projects, project)};
    if (limits.devices == 0 && limits.jobs == 0) return std::nullopt;
    return limits;
  }
  bool Fits(Candidate& job) const { return ground_.use.FitsPerson(job.job, job.kind()); }
  std::string Describe(Candidate& job) const {
    const Limits limits = LimitsOf(job).value_or(Limits{});
    return absl::StrCat("one person has at most ",
                        limits.devices > 0 ? absl::StrCat(limits.devices, " ", job.kind()) : "",
                        limits.devices > 0 && limits.jobs > 0 ? " and " : "",
                        limits.jobs > 0 ? common::Counted(limits.jobs, "job") : "", " in project ",
                        ProjectOf(job.job));
  }
  static Line LineOf(Candidate& job) { return {ProjectOf(job.job), OwnerKey(job.job), job.kind()}; }

  const Ground& ground_;
  std::map<Line, QueuePlace> first_;  // that was kept back in this pass
};

}  // namespace

std::unique_ptr<Policy> MakePersonLimit(Ground& ground) {
  return std::make_unique<PersonLimit>(ground);
}

}  // namespace muster::coordinator
