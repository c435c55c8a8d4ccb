// The nodes of a coordinator, judged from what they report anyway. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/doctor/checks.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client::doctor {

struct NodeVerdict {
  std::string node;  // "cluster" for what concerns all of them
  Verdict verdict;
};

// One for each thing that is wrong, one for each node that is well.
std::vector<NodeVerdict> JudgeCluster(const v1::GetServerResponse& server,
                                      const v1::ListNodesResponse& nodes);

}  // namespace muster::client::doctor
