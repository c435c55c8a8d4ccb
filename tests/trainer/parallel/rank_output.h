// Runs scenarios of parallel_ranks.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {

inline std::vector<ChildResult> run_scenario(int world_size, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TestBuild("bin/tests/parallel_ranks"));
  return run_ranks({.argv = arguments, .world_size = world_size});
}

// As above: what each rank printed; all must succeed.
inline std::vector<std::map<std::string, std::string>> outcome(
    int world_size, const std::vector<std::string>& arguments) {
  std::vector<std::map<std::string, std::string>> values;
  for (const ChildResult& result : run_scenario(world_size, arguments)) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    values.push_back(said(result));
  }
  return values;
}

}  // namespace muster
