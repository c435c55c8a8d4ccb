// Starts the ranks of a job on this machine with torchrun's variables set by hand.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/child_process.h"

namespace muster {

struct RankPlan {
  std::vector<std::string> argv;
  int world_size = 1;
  int nodes = 1;  // the ranks are dealt out to so many, all of them on this machine
  std::map<std::string, std::string> environment;  // of every rank
  // Further variables of one rank.
  std::function<std::map<std::string, std::string>(int rank)> environment_of;
};

// Runs all ranks to their end (60 s at most) and returns their results in rank order.
std::vector<ChildResult> run_ranks(const RankPlan& plan);

}  // namespace muster
