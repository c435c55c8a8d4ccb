#include "coordinator/core/scheduling/project_use.h"

#include <algorithm>

#include "coordinator/core/scheduling/placement.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {

ProjectUse::ProjectUse(const SchedulingState& state) : shares_(state.projects) {
  if (shares_.empty()) return;
  for (const uint64_t id : state.active) {
    const v1::JobRecord& job = state.jobs.at(id);
    if (const v1::Attempt* attempt = LiveAttempt(job)) Add(job, *attempt);
  }
}

uint64_t ProjectUse::Of(const std::string& project, const std::string& kind) const {
  const auto found = devices_.find({project, kind});
  return found == devices_.end() ? 0 : found->second;
}

uint64_t ProjectUse::OfPerson(const std::string& project, const std::string& owner,
                              const std::string& kind) const {
  const auto found = of_people_.find({project, owner, kind});
  return found == of_people_.end() ? 0 : found->second;
}

bool ProjectUse::FitsLimit(const v1::JobRecord& job, const std::string& kind) const {
  const std::string& project = ProjectOf(job);
  const uint64_t limit = LimitOf(shares_, project, kind);
  return limit == 0 || Of(project, kind) + LeastDevices(job.spec().shape()) <= limit;
}

bool ProjectUse::FitsQuotaIfItStays(const v1::JobRecord& job, const std::string& kind) const {
  if (!HasQuotas(shares_) || MayBeAskedToGiveWay(job.spec())) return true;
  const std::string& project = ProjectOf(job);
  return OfStaying(project, kind) + LeastDevices(job.spec().shape()) <=
         QuotaOf(shares_, project, kind);
}

bool ProjectUse::FitsPerson(const v1::JobRecord& job, const std::string& kind) const {
  const std::string& project = ProjectOf(job);
  const uint32_t devices = PersonLimitOf(shares_, project, kind);
  const uint32_t jobs = PersonJobsOf(shares_, project);
  if (devices == 0 && jobs == 0) return true;
  const std::string owner = OwnerKey(job);
  return (devices == 0 ||
          OfPerson(project, owner, kind) + LeastDevices(job.spec().shape()) <= devices) &&
         (jobs == 0 || OfPerson(project, owner, "") < jobs);
}

uint64_t ProjectUse::OfStaying(const std::string& project, const std::string& kind) const {
  const auto found = staying_.find({project, kind});
  return found == staying_.end() ? 0 : found->second;
}

uint64_t ProjectUse::Borrowed(const std::string& project, const std::string& kind) const {
  const uint64_t used = Of(project, kind), quota = QuotaOf(shares_, project, kind);
  return used > quota ? used - quota : 0;
}

void ProjectUse::CutToShare(const v1::JobRecord& job, const std::string& kind,
                            v1::Shape& shape) const {
  const std::string& project = ProjectOf(job);
  const uint32_t least_nodes = std::max<uint32_t>(1, shape.min_nodes());
  if (shares_.empty() || shape.per_node() == 0 || shape.max_nodes() <= least_nodes) return;
  const uint64_t used = Of(project, kind), least = LeastDevices(shape);
  const uint64_t quota = QuotaOf(shares_, project, kind);
  uint64_t most = LimitOf(shares_, project, kind);
  if (used + least <= quota) most = quota;
  uint64_t left = most == 0 ? UINT64_MAX : most - std::min(most, used);
  if (const uint64_t person = PersonLimitOf(shares_, project, kind); person > 0) {
    const uint64_t own = OfPerson(project, OwnerKey(job), kind);
    left = std::min(left, person - std::min(person, own));
  }
  if (left == UINT64_MAX || left < least) return;
  const uint64_t nodes = left / (uint64_t{shape.per_node()} * DevicesPerRank(shape.device()));
  shape.set_max_nodes(static_cast<uint32_t>(std::min<uint64_t>(shape.max_nodes(), nodes)));
}

void ProjectUse::Add(const v1::JobRecord& job, const v1::Attempt& attempt) {
  Count(job, attempt, 1);
}
void ProjectUse::Remove(const v1::JobRecord& job, const v1::Attempt& attempt) {
  Count(job, attempt, -1);
}

void ProjectUse::Count(const v1::JobRecord& job, const v1::Attempt& attempt, int64_t sign) {
  const bool stays = !MayBeAskedToGiveWay(job.spec());
  const std::string& project = ProjectOf(job);
  const auto share = shares_.find(project);
  const bool limits_people = share != shares_.end() &&
                             (share->second.person_jobs > 0 || !share->second.person_limit.empty());
  const std::string owner = limits_people ? OwnerKey(job) : "";
  if (limits_people) of_people_[{project, owner, ""}] += static_cast<uint64_t>(sign);
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.ended()) continue;
    const std::pair key(project, part.device_kind());
    const auto devices = static_cast<uint64_t>(sign * part.device_indexes_size());
    devices_[key] += devices;
    if (stays) staying_[key] += devices;
    if (limits_people) of_people_[{project, owner, part.device_kind()}] += devices;
  }
}

uint64_t LeastDevices(const v1::Shape& shape) {
  const uint64_t ranks = shape.per_node() > 0
                             ? uint64_t{shape.per_node()} * std::max<uint32_t>(1, shape.min_nodes())
                             : shape.processes();
  return ranks * DevicesPerRank(shape.device());
}

}  // namespace muster::coordinator
