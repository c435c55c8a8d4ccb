// Training under Muster against training under Hugging Face Accelerate: two real ranks each, from
// the same weights, over the same samples, with the same kernels. cases.json lists what is trained;
// parity_ranks.cc and parity_twin.py train it. The result is the table printed at the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "parity/parity_files.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using nlohmann::json;

const std::string kCases = TestSource("tests/trainer/parity/cases.json");

// How much the two sides' numbers differ.
struct Difference {
  double greatest = 0;  // relative
  int equal = 0;        // bit-identical
  int count = 0;

  void add(double ours, double theirs) {
    ++count;
    if (ours == theirs || (std::isnan(ours) && std::isnan(theirs))) {
      ++equal;
      return;
    }
    const double relative = std::abs(ours - theirs) / std::abs(theirs);
    greatest = std::isfinite(relative) ? std::max(greatest, relative) : HUGE_VAL;
  }
};

// Lists of hexadecimal floating point numbers.
void add_all(Difference& difference, const json& ours, const json& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < theirs.size(); ++i) {
    difference.add(std::strtod(ours[i].get<std::string>().c_str(), nullptr),
                   std::strtod(theirs[i].get<std::string>().c_str(), nullptr));
  }
}

class Parity : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    write_inputs(directory_->path());
    if (HasFatalFailure()) return;
    // All cases at once: in a short run, half the time would go into Python's imports.
    std::vector<std::string> names;
    for (const json& one : read_json(kCases)) {
      names.push_back(one.at("name"));
      cases_[names.back()] = one;
    }
    run({TestPython(), "-Wignore", TestSource("tests/trainer/parity/parity_twin.py")}, names);
  }

  static void TearDownTestSuite() {
    std::printf("\n%-26s %6s %12s %12s %9s\n", "case", "steps", "greatest", "bit-equal", "limit");
    std::printf("%s\n", table_.c_str());
    table_.clear();
    directory_.reset();
  }

  // Trains the cases on both sides and compares everything they wrote.
  static void expect_parity(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      ASSERT_TRUE(cases_.contains(name)) << name;
      run({TestBuild("bin/tests/trainer_parity_ranks")}, {name});
    }
    if (HasFatalFailure()) return;
    for (const std::string& name : names) compare(cases_[name]);
  }

 private:
  static void run(std::vector<std::string> argv, const std::vector<std::string>& names) {
    argv.insert(argv.end(), {kCases, directory_->path(), directory_->path()});
    argv.insert(argv.end(), names.begin(), names.end());
    run_side(argv, std::chrono::seconds(400));
  }

  static void compare(const json& one) {
    const std::string name = one.at("name");
    SCOPED_TRACE(name);
    const double limit = one.value("limit", 1e-6);
    Difference losses;
    for (int rank = 0; rank < kParityRanks; ++rank) {
      const auto path = [&](const char* side) {
        return *directory_ / (name + "." + side + "." + std::to_string(rank) + ".json");
      };
      const json ours = read_json(path("muster")), theirs = read_json(path("python"));
      EXPECT_EQ(ours.at("samples"), theirs.at("samples"));
      EXPECT_EQ(ours.at("synced"), theirs.at("synced"));
      // Accelerate does not see what a fused optimizer skips inside its kernel.
      if (!one.value("skips_unseen", false)) {
        EXPECT_EQ(ours.at("skipped"), theirs.at("skipped"));
      }
      Difference rates, norms, scales;
      add_all(scales, ours.at("scale"), theirs.at("scale"));
      EXPECT_EQ(scales.equal, scales.count);
      add_all(losses, ours.at("loss"), theirs.at("loss"));
      add_all(rates, ours.at("lr"), theirs.at("lr"));
      add_all(norms, ours.at("norm"), theirs.at("norm"));
      EXPECT_LE(rates.greatest, 1e-12);
      EXPECT_LE(norms.greatest, std::max(limit, 1e-5));
      EXPECT_GT(theirs.at("loss").size(), 99u);
    }
    EXPECT_LE(losses.greatest, limit);
    char line[160];
    std::snprintf(line, sizeof(line), "%-26s %6d %12.1e %5d of %4d %9.0e\n", name.c_str(),
                  losses.count / kParityRanks, losses.greatest, losses.equal, losses.count, limit);
    table_ += line;
  }

  inline static std::unique_ptr<TemporaryDirectory> directory_;
  inline static std::map<std::string, json> cases_;
  inline static std::string table_;
};

TEST_F(Parity, HoldsForModelsAccumulationAndClipping) {
  expect_parity({"digits", "transformer", "batch_norm", "accumulate_4", "accumulate_4_transformer",
                 "clip_norm", "clip_norm_transformer", "clip_value"});
}

TEST_F(Parity, HoldsInEveryBitWhereEachBatchIsReduced) {
  expect_parity({"sync_each_batch", "sync_each_batch_zero1"});
}

TEST_F(Parity, HoldsForTiedWeightsThatAreClipped) {
  expect_parity({"tied_clip_norm", "tied_clip_value"});
}

TEST_F(Parity, HoldsForTwoBackwardsInAShortLastWindow) { expect_parity({"gan"}); }

TEST_F(Parity, HoldsForRecurrentLayers) { expect_parity({"gru"}); }

TEST_F(Parity, HoldsForEverySchedule) {
  expect_parity({"schedule_constant", "schedule_linear", "schedule_cosine",
                 "schedule_cosine_restarts", "schedule_one_cycle", "schedule_step",
                 "schedule_plateau"});
}

TEST_F(Parity, HoldsForEveryOptimizer) {
  expect_parity({"adam", "sgd", "adagrad", "adamw_foreach"});
}

TEST_F(Parity, HoldsForTheWaysToEndAnEpoch) {
  expect_parity({"even_batches", "short_last_batch", "split_batches", "drop_last"});
}

TEST_F(Parity, HoldsForTheVariantsOfDataParallelism) {
  expect_parity({"find_unused_parameters", "static_graph", "fp16_gradients"});
}

TEST_F(Parity, HoldsForMixedPrecisionAndTheGradScaler) {
  expect_parity({"bf16", "bf16_transformer", "fp16_scaler", "scaler_overflows"});
}

}  // namespace
}  // namespace muster
