// A sharded model trains like an unsharded one: the ranks of ../parity train each case with every
// stage, and each step is compared with DDP. Prints the tables.
#include "sharding/sharded_run.h"

namespace muster {
namespace {

class Sharding : public ShardedRun {};

struct Case {
  const char* name;
  const char* text;  // in the form of ../parity/cases.json
  double limit = 1e-6;
  bool merges = false;  // small blocks share units, as is the default
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"digits", R"({"model": "digits", "batch": 16, "optimizer": {"name": "adamw", "lr": 1e-3}})"},
      {"transformer",
       R"({"model": "transformer", "batch": 8, "optimizer": {"name": "adamw", "lr": 1e-3}})"},
      {"batch norm",
       R"({"model": "norm", "batch": 8, "optimizer": {"name": "sgd", "lr": 0.02,
           "momentum": 0.9}})"},
      {"clip by norm, accumulation 4, cosine",
       R"({"model": "transformer", "batch": 4, "samples": 370, "accumulation": 4, "clip_norm": 0.5,
           "optimizer": {"name": "adamw", "lr": 1e-3},
           "schedule": {"name": "cosine", "warmup_steps": 10, "total_steps": 110}})"},
      {"clip by value", R"({"model": "digits", "batch": 8, "clip_value": 0.01,
                            "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}})"},
      {"scaler with overflows",
       R"({"model": "digits_plain", "batch": 8, "overflow_at": [3, 20, 21, 90],
           "scaler": {"init_scale": 65536.0, "growth_interval": 7},
           "optimizer": {"name": "adamw", "lr": 1e-3}})"},
      {"unused parameters", R"({"model": "norm_side", "batch": 8,
                                "ddp": {"find_unused_parameters": true},
                                "optimizer": {"name": "adamw", "lr": 1e-3}})"},
      {"tied weights, clip by norm",
       R"({"model": "transformer_tied", "batch": 4, "clip_norm": 0.5,
           "optimizer": {"name": "adamw", "lr": 1e-3}})",
       1e-5},  // of 200 steps: the sum of the norm in another order; up to 5.1e-6 was seen
      {"GRU, clip by norm", R"({"model": "gru", "batch": 8, "clip_norm": 1.0,
                                "optimizer": {"name": "adamw", "lr": 1e-3}})"},
      {"GAN: two backwards, short last windows",
       R"({"model": "gan", "batch": 8, "samples": 370, "accumulation": 4,
           "optimizer": {"name": "adamw", "lr": 1e-3}})"},
      {"300 small layers in one unit",
       R"({"model": "small_layers", "batch": 16, "optimizer": {"name": "adamw", "lr": 1e-3}})", 0,
       true}};
  return all;
}

TEST_F(Sharding, EveryStageTrainsLikeDdp) {
  char line[120];
  table_ += "200 steps, 2 ranks: greatest relative difference of a step's loss to DDP\n";
  std::snprintf(line, sizeof(line), "  %-38s %9s %9s %9s\n", "", "zero1", "zero2", "zero3");
  table_ += line;
  for (const Case& one : cases()) {
    json text = json::parse(one.text);
    text["steps"] = 200;
    const auto whole = train(text, json::object(), 2);
    std::snprintf(line, sizeof(line), "  %-38s", one.name);
    table_ += line;
    for (const char* stage : {"zero1", "zero2", "zero3"}) {
      json sharding = {{"stage", stage}};
      if (one.merges) sharding["unit_numel_min"] = 131'072;
      const auto sharded = train(text, sharding, 2);
      const double found = difference(whole, sharded);
      EXPECT_LE(found, one.limit) << one.name << ", " << stage;
      if (sharded.empty()) continue;
      for (const char* exact : {"lr", "scale", "skipped", "samples", "synced"}) {
        EXPECT_EQ(sharded[0].at(exact), whole[0].at(exact)) << one.name << ", " << stage;
      }
      std::snprintf(line, sizeof(line), " %9.1e", found);
      table_ += line;
    }
    table_ += "\n";
  }
}

TEST_F(Sharding, TwoCopiesOfTwoPartsTrainLikeDdp) {
  const json one = json::parse(R"({"model": "transformer", "batch": 4, "steps": 50,
                                   "clip_norm": 0.8, "optimizer": {"name": "adamw", "lr": 1e-3}})");
  const auto whole = train(one, json::object(), 4);
  char line[120];
  table_ += "50 steps, hybrid 2 x 2\n";
  for (const char* stage : {"zero1", "zero2", "zero3"}) {
    const double found =
        difference(whole, train(one, {{"stage", stage}, {"shard_group_size", 2}}, 4));
    EXPECT_LE(found, 5e-6) << stage;
    std::snprintf(line, sizeof(line), "  %-38s %9.1e\n", stage, found);
    table_ += line;
  }
}

TEST_F(Sharding, OptionsOfUnitsChangeNoNumber) {
  const json one = json::parse(R"({"model": "transformer", "batch": 4, "steps": 30,
                                   "accumulation": 2, "optimizer": {"name": "adamw", "lr": 1e-3}})");
  const auto whole = train(one, json::object(), 2);
  const json variants = json::parse(R"([{"unit_numel": 1000}, {"unit_numel": 100000000},
      {"units": ["blocks.0", "head"]}, {"units": ["blocks"]}, {"unit_numel_min": 60000}, {"prefetch": false},
      {"reshard_after_forward": false}])");
  for (json variant : variants) {
    variant["stage"] = "zero3";
    EXPECT_LE(difference(whole, train(one, variant, 2)), 1e-6) << variant;
  }
  // Sums in another order.
  EXPECT_LE(
      difference(whole, train(one, {{"stage", "zero3"}, {"reduce_every_micro_batch", true}}, 2)),
      5e-6);
}

// Its scaler sees the same overflows as DDP's, even of gradients that autocast leaves in float32.
TEST_F(Sharding, Fp16SkipsTheStepsThatDdpSkips) {
  const json one =
      json::parse(R"({"model": "transformer", "batch": 8, "steps": 40, "accumulation": 2,
                                   "precision": "fp16",
                                   "scaler": {"init_scale": 16777216.0, "growth_interval": 4},
                                   "optimizer": {"name": "adamw", "lr": 1e-3}})");
  const auto whole = train(one, json::object(), 2);
  for (const char* stage : {"zero2", "zero3"}) {
    const auto sharded = train(one, {{"stage", stage}}, 2);
    ASSERT_FALSE(sharded.empty());
    EXPECT_EQ(sharded[0].at("scale"), whole[0].at("scale")) << stage;
    EXPECT_EQ(sharded[0].at("skipped"), whole[0].at("skipped")) << stage;
    EXPECT_LE(difference(whole, sharded), 1e-6) << stage;
  }
}

TEST_F(Sharding, LowPrecisionKeepsItsMastersInFloat32) {
  const json one = json::parse(R"({"model": "transformer", "batch": 8, "steps": 60,
                                   "precision": "bf16", "optimizer": {"name": "adamw", "lr": 1e-3}})");
  const auto whole = train(one, json::object(), 2);
  // The same casts as without sharding, and parameters that are gathered in bfloat16.
  EXPECT_LE(difference(whole, train(one, {{"stage", "zero3"}, {"param_dtype", "fp32"}}, 2)), 1e-6);
  const auto lowered = train(one, {{"stage", "zero3"}}, 2);
  EXPECT_LE(difference(whole, lowered), 2e-2);
  EXPECT_GT(difference(whole, lowered), 0);
}

}  // namespace
}  // namespace muster
