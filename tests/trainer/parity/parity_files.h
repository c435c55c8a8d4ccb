// The files that the programs in this directory exchange, and how they are run.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// Runs the twin to write the data and initial weights of all models there.
inline void write_inputs(const std::string& directory) {
  ChildProcess inputs(
      {TestPython(), TestSource("tests/trainer/parity/parity_twin.py"), "--inputs", directory}, {});
  const ChildResult result =
      inputs.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  ASSERT_EQ(result.exit_code, 0) << result.output;
}

inline constexpr int kParityRanks = 2;

// Runs one side of a comparison on its ranks; each must succeed.
inline void run_side(const std::vector<std::string>& argv, std::chrono::seconds deadline) {
  const RankPlan plan{.argv = argv,
                      .world_size = kParityRanks,
                      .environment = {{"TORCH_CPP_LOG_LEVEL", "ERROR"}},
                      .deadline = deadline};
  for (const ChildResult& result : run_ranks(plan)) {
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
}

}  // namespace muster
