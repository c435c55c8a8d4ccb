// The files that the programs in this directory exchange.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/child_process.h"
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

}  // namespace muster
