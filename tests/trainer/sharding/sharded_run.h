// Runs the ranks of ../parity with a sharded model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parity/parity_files.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {

using nlohmann::json;

class ShardedRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    write_inputs(directory_->path());
  }
  static void TearDownTestSuite() {
    std::printf("\n%s\n", table_.c_str());
    table_.clear();
    directory_.reset();
  }

  // Trains a case on this many ranks and returns what each of them wrote.
  static std::vector<json> train(json one, const json& sharding, int world_size) {
    const auto results = start(one, sharding, world_size);
    std::vector<json> written;
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(results[rank].exit_code, 0) << one << "\n" << results[rank].output;
      if (results[rank].exit_code != 0) return {};
      const std::string name = one["name"].get<std::string>() + ".muster.";
      written.push_back(read_json(*directory_ / (name + std::to_string(rank) + ".json")));
      written.back()["checkpoint_dir"] = one["checkpoint_dir"];
    }
    return written;
  }

  // Fills in the case's name and checkpoint_dir and, for models so small that their blocks would
  // form one unit, makes each block a unit as in a large model.
  static std::vector<ChildResult> start(json& one, const json& sharding, int world_size) {
    static int runs = 0;
    one["name"] = "run" + std::to_string(++runs);
    one["sharding"] = sharding;
    if (!sharding.contains("unit_numel_min")) one["sharding"]["unit_numel_min"] = 0;
    if (!one.contains("checkpoint_dir")) {
      one["checkpoint_dir"] = *directory_ / ("checkpoints" + std::to_string(runs));
    }
    const std::string cases = *directory_ / "cases.json";
    std::ofstream(cases) << json::array({one});
    return run_ranks({.argv = {TestBuild("bin/tests/trainer_parity_ranks"), cases,
                               directory_->path(), directory_->path(), one["name"]},
                      .world_size = world_size});
  }

  inline static std::unique_ptr<TemporaryDirectory> directory_;
  inline static std::string table_;
};

inline double number(const json& text) {
  return std::strtod(text.get<std::string>().c_str(), nullptr);
}

// The largest relative difference in loss of any step on any rank.
inline double difference(const std::vector<json>& a, const std::vector<json>& b) {
  if (a.empty() || a.size() != b.size()) return 1;
  double greatest = 0;
  for (size_t rank = 0; rank < a.size(); ++rank) {
    const json &first = a[rank].at("loss"), &second = b[rank].at("loss");
    EXPECT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) {
      const double expected = number(first[i]);
      const double relative = std::abs(number(second[i]) - expected) / std::abs(expected);
      greatest = std::isnan(relative) ? 1 : std::max(greatest, relative);
    }
  }
  return greatest;
}

}  // namespace muster
