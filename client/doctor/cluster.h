// Checks the nodes of a coordinator, using what they report in any case. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/doctor/checks.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client::doctor {

struct NodeVerdict {
  std::string node;  // "cluster" for verdicts about all of them
  Verdict verdict;
};

// One verdict for each problem, and one for each node without problems.
std::vector<NodeVerdict> JudgeCluster(const v1::GetServerResponse& server,
                                      const v1::ListNodesResponse& nodes);

}  // namespace muster::client::doctor
