// Starts the ranks of a job on this machine with torchrun's variables set by hand.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/child_process.h"

namespace muster {

struct RankPlan {
  std::vector<std::string> argv;
  int world_size = 1;
  int nodes = 1;  // simulated nodes that the ranks are spread over, all on this machine
  std::map<std::string, std::string> environment;  // of every rank
  // Additional variables of one rank.
  std::function<std::map<std::string, std::string>(int rank)> environment_of;
  std::chrono::seconds deadline{60};  // for all ranks together
};

// Runs all ranks to their end, kills those that miss the deadline, and returns their results in
// rank order.
std::vector<ChildResult> run_ranks(const RankPlan& plan);

// The lines "name value" of what a rank printed.
std::map<std::string, std::string> said(const ChildResult& result);

}  // namespace muster
