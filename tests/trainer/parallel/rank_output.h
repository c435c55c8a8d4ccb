// What ranks said: the lines "name value" of each.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/rank_launcher.h"

namespace muster {

inline std::map<std::string, std::string> said(const ChildResult& result) {
  std::map<std::string, std::string> values;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space != std::string::npos) values[line.substr(0, space)] = line.substr(space + 1);
  }
  return values;
}

inline std::vector<ChildResult> run_scenario(int world_size, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PARALLEL_RANKS);
  return run_ranks({.argv = arguments, .world_size = world_size});
}

// As above, and all ranks must succeed.
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
