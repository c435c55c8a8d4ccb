// A run that stops and resumes: with the same world size it is bit-identical to the uninterrupted
// run; with a different one, or with a different kernel, the losses agree until rounding
// differences grow. Prints both tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "parity/parity_files.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr int64_t kStepsPerEpoch = 50;
constexpr int64_t kGlobalBatch = 12;
constexpr int64_t kStepsCompared = 50;  // after a change
constexpr double kStepLimit = 5e-6;     // relative, of each of them
constexpr double kEpochLimit = 5e-4;    // relative, of an epoch's mean

class Resume : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    write_inputs(directory_->path());
  }
  static void TearDownTestSuite() {
    std::printf("\n%s%s\n", exact_table_.c_str(), world_table_.c_str());
    exact_table_.clear();
    world_table_.clear();
    directory_.reset();
  }

  // Trains a case on this many ranks and returns what each of them wrote.
  static std::vector<json> train(json one, int world_size) {
    static int runs = 0;
    one["name"] = "run" + std::to_string(++runs);
    one["checkpoint_dir"] = *directory_ / ("checkpoints" + std::to_string(runs));
    const std::string cases = *directory_ / "cases.json";
    std::ofstream(cases) << json::array({one});
    const auto results = run_ranks({.argv = {TestBuild("bin/tests/trainer_parity_ranks"), cases,
                                             directory_->path(), directory_->path(), one["name"]},
                                    .world_size = world_size});
    std::vector<json> written;
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(results[rank].exit_code, 0) << results[rank].output;
      const std::string name = one["name"].get<std::string>() + ".muster.";
      written.push_back(read_json(*directory_ / (name + std::to_string(rank) + ".json")));
      written.back()["checkpoint_dir"] = one["checkpoint_dir"];
    }
    return written;
  }

  // The case, resuming from a checkpoint that a run wrote at that micro-batch.
  static json go_on(json one, const std::vector<json>& from, int64_t at) {
    one["resume_from"] =
        from.at(0).at("checkpoint_dir").get<std::string>() + "/step-" + std::to_string(at);
    return one;
  }

  inline static std::unique_ptr<TemporaryDirectory> directory_;
  inline static std::string exact_table_;
  inline static std::string world_table_;
};

// ---- The same world size ----

struct Interrupted {
  const char* name;
  const char* text;  // the case, in the form of cases.json
  std::vector<int64_t> stops;
};

const std::vector<Interrupted>& interrupted_cases() {
  static const std::vector<Interrupted> cases = {
      {"dropout, mid-epoch",
       R"({"model": "digits", "batch": 6, "steps": 40, "samples": 300, "shuffle": true,
           "optimizer": {"name": "adamw", "lr": 1e-3}})",
       {1, 13}},
      {"several buckets, before they are rebuilt",
       R"({"model": "transformer_wide", "batch": 2, "steps": 12, "samples": 100, "shuffle": true,
           "ddp": {"bucket_cap_mb": 1}, "optimizer": {"name": "adamw", "lr": 1e-3}})",
       {1, 4}},
      {"accumulation, clip, cosine, average",
       R"({"model": "transformer", "batch": 3, "steps": 45, "samples": 100, "shuffle": true,
           "accumulation": 4, "clip_norm": 0.5, "ema": 0.9, "compat": false,
           "optimizer": {"name": "adamw", "lr": 2e-3},
           "schedule": {"name": "cosine", "warmup_steps": 3, "total_steps": 16}})",
       {8}},
      {"fp16 scaler, batch norm, momentum",
       R"({"model": "norm", "batch": 5, "steps": 40, "samples": 200, "shuffle": true,
           "scaler": {"init_scale": 65536.0, "growth_interval": 5}, "overflow_at": [3, 11, 12, 30],
           "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
           "schedule": {"name": "step", "step_size": 10, "gamma": 0.5}})",
       {13}},
      {"bf16, plateau, end of an epoch",
       R"({"model": "digits", "batch": 5, "steps": 40, "samples": 150, "shuffle": true,
           "precision": "bf16", "optimizer": {"name": "adamw", "lr": 1e-3},
           "schedule": {"name": "plateau", "factor": 0.5, "patience": 2}})",
       {10, 15}}};
  return cases;
}

// Compares everything that the resumed ranks wrote with the uninterrupted ones, bit by bit.
int count_equal(const std::vector<json>& resumed, const std::vector<json>& whole, int64_t at) {
  int equal = 0;
  for (size_t rank = 0; rank < whole.size(); ++rank) {
    EXPECT_EQ(resumed[rank].at("first"), at);
    for (const char* name : {"loss", "lr", "norm", "scale", "skipped", "samples", "synced"}) {
      const json& after = resumed[rank].at(name);
      const json& all = whole[rank].at(name);
      EXPECT_LE(after.size(), all.size()) << name;
      const json end(std::vector<json>(all.end() - static_cast<int64_t>(after.size()), all.end()));
      EXPECT_EQ(after, end) << name << " of rank " << rank;
    }
    for (const char* name : {"end", "buffers", "average", "random"}) {
      EXPECT_EQ(resumed[rank].value(name, ""), whole[rank].value(name, "")) << name;
    }
    const json& losses = whole[rank].at("loss");
    for (size_t i = 0; i < resumed[rank].at("loss").size(); ++i) {
      if (resumed[rank].at("loss")[i] == losses[static_cast<size_t>(at) + i]) ++equal;
    }
  }
  return equal;
}

class OnWorlds : public Resume, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Of, OnWorlds, ::testing::Values(2, 3));

TEST_P(OnWorlds, AResumedRunEqualsTheUninterruptedOneBitForBit) {
  const int world_size = GetParam();
  for (const Interrupted& interrupted : interrupted_cases()) {
    SCOPED_TRACE(interrupted.name);
    const json one = json::parse(interrupted.text);
    const int64_t steps = one.at("steps");
    const std::vector<json> whole = train(one, world_size);
    json saving = one;
    saving["save_at"] = interrupted.stops;
    saving["steps"] = interrupted.stops.back();
    const std::vector<json> first = train(saving, world_size);
    for (const int64_t stop : interrupted.stops) {
      const int equal = count_equal(train(go_on(one, first, stop), world_size), whole, stop);
      char line[160];
      std::snprintf(line, sizeof(line),
                    "%-40s %d ranks  stopped at %2ld of %ld  %3d of %3ld losses bit-equal\n",
                    interrupted.name, world_size, stop, steps, equal, (steps - stop) * world_size);
      exact_table_ += line;
    }
  }
}

// ---- Another world size, another kernel ----

// The loss of each global batch: the mean over the ranks, whose shares have equal size.
std::vector<double> global_losses(const std::vector<json>& ranks) {
  std::vector<double> losses(ranks[0].at("loss").size());
  for (const json& rank : ranks) {
    for (size_t i = 0; i < losses.size(); ++i) {
      const std::string text = rank.at("loss")[i];
      losses[i] += std::strtod(text.c_str(), nullptr) / static_cast<double>(ranks.size());
    }
  }
  return losses;
}

class Change : public Resume {
 protected:
  // `ours` and `reference` both start at micro-batch `first`.
  static void compare(const std::string& name, const std::vector<json>& ours,
                      const std::vector<json>& reference) {
    SCOPED_TRACE(name);
    const int64_t first = ours[0].at("first");
    const int64_t offset = first - reference[0].at("first").get<int64_t>();
    const std::vector<double> a = global_losses(ours), b = global_losses(reference);
    double steps = 0, epochs = 0;
    for (int64_t i = 0; i < kStepsCompared; ++i) {
      steps = std::max(steps, std::abs(a[i] - b[offset + i]) / std::abs(b[offset + i]));
    }
    int64_t compared = 0;
    for (int64_t i = 0; i + kStepsPerEpoch <= static_cast<int64_t>(a.size()); ++i) {
      if ((first + i) % kStepsPerEpoch != 0) continue;
      double mean = 0, other = 0;
      for (int64_t k = i; k < i + kStepsPerEpoch; ++k) {
        mean += a[k];
        other += b[offset + k];
      }
      epochs = std::max(epochs, std::abs(mean - other) / other);
      ++compared;
    }
    EXPECT_LE(steps, kStepLimit);
    EXPECT_LE(epochs, kEpochLimit);
    EXPECT_GE(compared, 1);
    char line[160];
    std::snprintf(line, sizeof(line), "%-34s %9.1e (limit %.0e) %3ld epochs %9.1e (limit %.0e)\n",
                  name.c_str(), steps, kStepLimit, compared, epochs, kEpochLimit);
    world_table_ += line;
  }

  static json of(const std::string& model, int ranks) {
    return {{"model", model},
            {"batch", kGlobalBatch / ranks},
            {"samples", kGlobalBatch * kStepsPerEpoch},
            {"shuffle", true},
            {"optimizer", {{"name", "adamw"}, {"lr", 3e-4}}}};
  }
  static json until(json one, int64_t steps, const std::vector<int64_t>& save_at = {}) {
    one["steps"] = steps;
    one["save_at"] = save_at;
    return one;
  }
};

TEST_F(Change, OfTheWorldSizeOrTheKernelKeepsTheLosses) {
  for (const std::string model : {"digits_plain", "transformer"}) {
    const auto whole = train(until(of(model, 2), 250, {75}), 2);
    const auto three = train(until(go_on(of(model, 3), whole, 75), 250, {125}), 3);
    compare(model + ", 2 to 3 ranks", three, whole);
    const auto one = train(until(go_on(of(model, 1), three, 125), 250), 1);
    compare(model + ", 3 to 1 rank", one, three);
    for (const char* implementation : {"foreach", "plain"}) {
      json other = of(model, 2);
      other["optimizer"]["implementation"] = implementation;
      const auto changed = train(until(go_on(other, whole, 75), 200), 2);
      compare(model + ", fused to " + implementation, changed, whole);
    }
  }
}

}  // namespace
}  // namespace muster
