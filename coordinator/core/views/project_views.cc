#include "coordinator/core/views/project_views.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduling/placement.h"

namespace muster::coordinator {

std::vector<v1::ProjectUse> ViewProjects(const SchedulingState& state) {
  std::map<std::pair<std::string, std::string>, v1::ProjectUse> uses;
  const auto of = [&](const std::string& project, const std::string& kind) -> v1::ProjectUse& {
    return uses[{project, kind}];
  };
  for (const auto& [name, share] : state.projects) {
    for (const auto& [kind, count] : share.quota) of(name, kind).set_quota(count);
    for (const auto& [kind, count] : share.limit) of(name, kind).set_limit(count);
  }
  for (const uint64_t id : state.active) {
    const v1::JobRecord& job = state.jobs.at(id);
    const v1::Attempt* attempt = LiveAttempt(job);
    if (attempt == nullptr) continue;
    for (const v1::NodePart& part : attempt->parts()) {
      if (part.ended()) continue;
      v1::ProjectUse& use = of(ProjectOf(job), part.device_kind());
      use.set_used(use.used() + static_cast<uint64_t>(part.device_indexes_size()));
    }
  }
  const std::string usual = ResolveKind(state, {});
  for (const QueuePlace& place : state.queue) {
    const v1::JobRecord& job = state.jobs.at(place.job);
    const std::string& named = job.spec().shape().device().kind();
    v1::ProjectUse& use = of(ProjectOf(job), named.empty() ? usual : named);
    use.set_waiting(use.waiting() + LeastDevices(job.spec().shape()));
  }
  std::vector<v1::ProjectUse> views;
  for (auto& [key, use] : uses) {
    use.set_project(key.first);
    use.set_kind(key.second);
    if (HasQuotas(state.projects) && use.used() > use.quota())
      use.set_borrowed(use.used() - use.quota());
    views.push_back(std::move(use));
  }
  return views;
}

std::map<std::string, uint32_t> DevicesInService(const SchedulingState& state) {
  std::map<std::string, uint32_t> devices;
  for (const auto& [name, node] : state.nodes) {
    if (!IsInService(node)) continue;
    for (const v1::Device& device : node.record.facts().devices()) ++devices[device.kind()];
  }
  return devices;
}

std::vector<std::string> QuotaWarnings(const SchedulingState& state, const ProjectShares& shares) {
  std::map<std::string, uint64_t> sums;
  for (const auto& [name, share] : shares) {
    for (const auto& [kind, count] : share.quota) sums[kind] += count;
  }
  std::map<std::string, uint32_t> in_service = DevicesInService(state);
  std::vector<std::string> warnings;
  for (const auto& [kind, sum] : sums) {
    if (sum <= in_service[kind]) continue;
    warnings.push_back(absl::StrCat("the quotas of ", kind, " add up to ", sum, ", and ",
                                    in_service[kind],
                                    " are in service: not all projects can have theirs at once"));
  }
  return warnings;
}

std::string DescribeProject(const SchedulingState& state, const ProjectUse& use,
                            const std::string& project, const std::string& kind) {
  if (state.projects.empty()) return "";
  const uint64_t borrowed = use.Borrowed(project, kind);
  const uint32_t limit = LimitOf(state.projects, project, kind);
  return absl::StrCat("project ", project, " uses ", use.Of(project, kind), " ", kind,
                      ": its quota is ", QuotaOf(state.projects, project, kind),
                      borrowed > 0 ? absl::StrCat(", so ", borrowed, " are borrowed") : "",
                      limit > 0 ? absl::StrCat("; its limit is ", limit) : "");
}

}  // namespace muster::coordinator
