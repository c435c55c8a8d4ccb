#include "coordinator/core/state/project_shares.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

uint32_t NumberOf(const std::map<std::string, uint32_t>& by_kind, const std::string& kind) {
  const auto found = by_kind.find(kind);
  return found == by_kind.end() ? 0 : found->second;
}

}  // namespace

bool HasQuotas(const ProjectShares& shares) {
  return std::any_of(shares.begin(), shares.end(), [](const auto& project) {
    return std::any_of(project.second.quota.begin(), project.second.quota.end(),
                       [](const auto& of_kind) { return of_kind.second > 0; });
  });
}

uint32_t QuotaOf(const ProjectShares& shares, const std::string& project, const std::string& kind) {
  const auto found = shares.find(project);
  return found == shares.end() ? 0 : NumberOf(found->second.quota, kind);
}

uint32_t LimitOf(const ProjectShares& shares, const std::string& project, const std::string& kind) {
  const auto found = shares.find(project);
  return found == shares.end() ? 0 : NumberOf(found->second.limit, kind);
}

uint32_t PersonLimitOf(const ProjectShares& shares, const std::string& project,
                       const std::string& kind) {
  const auto found = shares.find(project);
  return found == shares.end() ? 0 : NumberOf(found->second.person_limit, kind);
}

uint32_t PersonJobsOf(const ProjectShares& shares, const std::string& project) {
  const auto found = shares.find(project);
  return found == shares.end() ? 0 : found->second.person_jobs;
}

std::optional<int32_t> MaxPriorityOf(const ProjectShares& shares, const std::string& project) {
  const auto found = shares.find(project);
  return found == shares.end() ? std::nullopt : found->second.max_priority;
}

uint32_t WeightOf(const ProjectShares& shares, const std::string& project) {
  const auto found = shares.find(project);
  return found == shares.end() ? 1 : std::max<uint32_t>(1, found->second.weight);
}

ProjectShares SharesOf(const v1::ProjectsSet& set) {
  ProjectShares shares;
  for (const v1::ProjectShare& project : set.projects()) {
    ProjectShare& share = shares[project.name()];
    share = {.quota = {project.quota().begin(), project.quota().end()},
             .limit = {project.limit().begin(), project.limit().end()},
             .weight = project.weight(),
             .person_limit = {project.person_limit().begin(), project.person_limit().end()},
             .person_jobs = project.person_jobs()};
    if (project.has_max_priority()) share.max_priority = project.max_priority();
  }
  return shares;
}

v1::ProjectsSet SharesFrom(const ProjectShares& shares) {
  v1::ProjectsSet set;
  for (const auto& [name, share] : shares) {
    v1::ProjectShare& project = *set.add_projects();
    project.set_name(name);
    project.mutable_quota()->insert(share.quota.begin(), share.quota.end());
    project.mutable_limit()->insert(share.limit.begin(), share.limit.end());
    project.set_weight(share.weight);
    project.mutable_person_limit()->insert(share.person_limit.begin(), share.person_limit.end());
    project.set_person_jobs(share.person_jobs);
    if (share.max_priority.has_value()) project.set_max_priority(*share.max_priority);
  }
  return set;
}

}  // namespace muster::coordinator
