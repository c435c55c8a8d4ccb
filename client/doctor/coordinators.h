// Checks the coordinators that replace each other, using what one of them lists. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/doctor/cluster.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client::doctor {

// One verdict for each problem, and one for each coordinator without problems; none for one that is alone.
// `silent`: why those did not answer that were asked and did not, by name.
std::vector<NodeVerdict> JudgeCoordinators(const v1::ListCoordinatorsResponse& list,
                                           const std::map<std::string, std::string>& silent,
                                           int64_t now_ms);

}  // namespace muster::client::doctor
