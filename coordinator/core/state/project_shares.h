// What a project may have of each kind of device, as the directory of identities has it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "muster/v1/event.pb.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct ProjectShare {
  std::map<std::string, uint32_t> quota;              // by kind; absent: 0
  std::map<std::string, uint32_t> limit;              // by kind; absent: none
  uint32_t weight = 1;                                // how much more than others it may borrow
  std::map<std::string, uint32_t> person_limit = {};  // devices of one person at once, by kind
  uint32_t person_jobs = 0;                           // jobs of one person at once; 0: no limit
  std::optional<int32_t> max_priority = {};
  bool operator==(const ProjectShare&) const = default;
};
using ProjectShares =
    std::map<std::string, ProjectShare>;  // by project; absent: as the default above

// "default" if it names none.
inline const std::string& ProjectOf(const v1::JobSpec& spec) {
  static const std::string kDefault = "default";
  return spec.project().empty() ? kDefault : spec.project();
}
inline const std::string& ProjectOf(const v1::JobRecord& job) { return ProjectOf(job.spec()); }
// Until some project has a quota, there is one queue.
bool HasQuotas(const ProjectShares& shares);
uint32_t QuotaOf(const ProjectShares& shares, const std::string& project, const std::string& kind);
// 0: none.
uint32_t LimitOf(const ProjectShares& shares, const std::string& project, const std::string& kind);
uint32_t PersonLimitOf(const ProjectShares& shares, const std::string& project,
                       const std::string& kind);
uint32_t PersonJobsOf(const ProjectShares& shares, const std::string& project);
// nullopt: any.
std::optional<int32_t> MaxPriorityOf(const ProjectShares& shares, const std::string& project);
uint32_t WeightOf(const ProjectShares& shares, const std::string& project);

// As they are journaled.
ProjectShares SharesOf(const v1::ProjectsSet& set);
v1::ProjectsSet SharesFrom(const ProjectShares& shares);

}  // namespace muster::coordinator
