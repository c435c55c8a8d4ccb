// What a job was configured with, as a list of fields, and how two jobs differ. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/v1/job_service.pb.h"

namespace muster::client {

// Fields by (group, name), in the order in which they are shown: what is run, where, the environment.
// Keeps values of variables whose names look secret for comparison, but never shows them. Leaves out
// variables that a shell sets for itself.
using Configuration = std::map<std::pair<int, std::string>, std::string>;

// `nodes` has the models of the devices and the workers' versions, for nodes that are still known.
Configuration ConfigurationOf(const v1::JobRecord& record, const v1::ListNodesResponse& nodes);

struct ConfigurationDifference {
  std::string field;             // "argument --lr", "env CUDA_VISIBLE_DEVICES"
  std::optional<std::string> a;  // absent: there is none
  std::optional<std::string> b;
};
// What is not equal, in order of the fields. Secret values are replaced by "(hidden)".
std::vector<ConfigurationDifference> DifferencesOf(const Configuration& a, const Configuration& b);

}  // namespace muster::client
