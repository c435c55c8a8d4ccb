// What people see of projects and their devices. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/scheduling/project_use.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// By project and kind: of those that have devices, may have some, or want some.
std::vector<v1::ProjectUse> ViewProjects(const SchedulingState& state);
// Devices of all nodes in service, by kind.
std::map<std::string, uint32_t> DevicesInService(const SchedulingState& state);
// "quotas of gpu add up to 96, and 64 are in service": one for each such kind.
std::vector<std::string> QuotaWarnings(const SchedulingState& state, const ProjectShares& shares);
// "project vision uses 24 gpu: its quota is 16, so 8 are borrowed; its limit is 64". Empty: no project has a share.
std::string DescribeProject(const SchedulingState& state, const ProjectUse& use,
                            const std::string& project, const std::string& kind);

}  // namespace muster::coordinator
