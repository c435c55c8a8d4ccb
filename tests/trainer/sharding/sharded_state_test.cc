// The state of a sharded model: checkpoints that any number of ranks and any stage can resume from,
// exact resume, a rank that dies while a unit is gathered, and the memory that each rank holds.
#include <torch/torch.h>

#include "checkpoint/checkpoint_reader.h"
#include "sharding/sharded_run.h"

namespace muster {
namespace {

class ShardedState : public ShardedRun {
 protected:
  static std::string checkpoint_of(const std::vector<json>& run, int64_t step) {
    return run.empty()
               ? ""
               : run[0].at("checkpoint_dir").get<std::string>() + "/step-" + std::to_string(step);
  }
};

// Every tensor of model and optimizer, unsharded.
TensorMap whole_state(const std::string& path) {
  const CheckpointReader reader(path, Topology{}, /*verify_hashes=*/true);
  TensorMap all;
  for (const char* prefix : {"model", "optim"}) {
    for (auto& [name, tensor] : reader.read(prefix)) all[std::string(prefix) + "/" + name] = tensor;
  }
  return all;
}

// How many tensors are equal bit by bit; -1 when the names differ.
int count_equal(const TensorMap& a, const TensorMap& b) {
  if (a.size() != b.size()) return -1;
  int equal = 0;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return -1;
    if (tensor.scalar_type() == other->second.scalar_type() && tensor.equal(other->second)) ++equal;
  }
  return equal;
}

struct World {
  const char* stage;
  int ranks;
  int shard_group_size = 0;
  json sharding() const { return {{"stage", stage}, {"shard_group_size", shard_group_size}}; }
  std::string text() const {
    return std::string(stage) + " on " + std::to_string(ranks) +
           (shard_group_size == 0 ? "" : ", groups of " + std::to_string(shard_group_size));
  }
};

TEST_F(ShardedState, IsTheSameOnAnyNumberOfRanksInAnyStage) {
  const json one = json::parse(R"({"model": "transformer", "batch": 3, "steps": 6,
                                   "save_at_end": true,
                                   "optimizer": {"name": "adamw", "lr": 1e-3}})");
  const std::vector<World> readers = {{"zero3", 4}, {"zero3", 3}, {"zero3", 2},
                                      {"zero3", 1}, {"zero2", 2}, {"zero1", 2},
                                      {"none", 2},  {"none", 1},  {"zero3", 4, 2}};
  for (const World& writer :
       {World{"zero3", 4}, World{"zero1", 3}, World{"none", 2}, World{"zero2", 4, 2}}) {
    const auto saved = train(one, writer.sharding(), writer.ranks);
    ASSERT_FALSE(saved.empty());
    const TensorMap expected = whole_state(checkpoint_of(saved, 6));
    ASSERT_GT(expected.size(), 100);
    table_ += "saved with " + writer.text() + ", equal tensors when loaded and saved again with\n";
    for (const World& reader : readers) {
      json again = one;
      again["resume_from"] = checkpoint_of(saved, 6);
      const auto loaded = train(again, reader.sharding(), reader.ranks);
      ASSERT_FALSE(loaded.empty());
      const int equal = count_equal(expected, whole_state(checkpoint_of(loaded, 6)));
      EXPECT_EQ(equal, static_cast<int>(expected.size()))
          << writer.text() << " > " << reader.text();
      char line[100];
      std::snprintf(line, sizeof(line), "  %-28s %3d of %zu\n", reader.text().c_str(), equal,
                    expected.size());
      table_ += line;
    }
  }
}

// Compares what a run wrote after its start with the end of an uninterrupted run.
void expect_same_end(const std::vector<json>& resumed, const std::vector<json>& whole) {
  ASSERT_EQ(resumed.size(), whole.size());
  for (size_t rank = 0; rank < whole.size(); ++rank) {
    const json& after = resumed[rank].at("loss");
    const json& all = whole[rank].at("loss");
    ASSERT_GT(after.size(), 0);
    const json end(std::vector<json>(all.end() - static_cast<int64_t>(after.size()), all.end()));
    EXPECT_EQ(after, end) << "rank " << rank;
    EXPECT_EQ(resumed[rank].at("end"), whole[rank].at("end"));
    EXPECT_EQ(resumed[rank].at("random"), whole[rank].at("random"));
  }
}

TEST_F(ShardedState, ADeathWhileAUnitIsGatheredEndsAllRanksAndTheRunGoesOnExactly) {
  const json one = json::parse(R"({"model": "digits", "batch": 6, "steps": 20, "shuffle": true,
                                   "clip_norm": 0.7, "save_at": [8],
                                   "optimizer": {"name": "adamw", "lr": 1e-3}})");
  for (const char* stage : {"zero1", "zero2", "zero3"}) {
    const json sharding = {{"stage", stage}};
    const auto whole = train(one, sharding, 2);
    json dying = one;
    dying["die_at"] = 13;  // after forward, before backward
    const auto results = start(dying, sharding, 2);
    EXPECT_NE(results[1].exit_code, 0);
    EXPECT_EQ(results[0].exit_code, 1) << results[0].output;
    EXPECT_NE(results[0].output.find("rank 0 failed"), std::string::npos) << results[0].output;
    EXPECT_NE(results[0].output.find("Connection "), std::string::npos) << results[0].output;
    json again = one;
    again["resume_from"] = dying["checkpoint_dir"].get<std::string>() + "/step-8";
    expect_same_end(train(again, sharding, 2), whole);
  }
}

TEST_F(ShardedState, TakesTheMemoryThatTheFormulaSays) {
  const json one = json::parse(R"({"model": "transformer_wide", "batch": 2, "steps": 2,
                                   "optimizer": {"name": "adamw", "lr": 1e-3}})");
  char line[120];
  std::snprintf(line, sizeof(line), "MiB of the rank that holds most, and the formula\n  %-12s",
                "");
  table_ += line;
  const std::vector<const char*> parts = {"parameters", "gradients", "optimizer_state",
                                          "gathered_peak"};
  for (const char* part : parts) {
    std::snprintf(line, sizeof(line), " %16s", part);
    table_ += line;
  }
  table_ += "\n";
  for (const int ranks : {2, 4}) {
    for (const char* stage : {"none", "zero1", "zero2", "zero3"}) {
      const auto run = train(one, {{"stage", stage}}, ranks);
      ASSERT_FALSE(run.empty());
      std::snprintf(line, sizeof(line), "  %-5s on %d  ", stage, ranks);
      table_ += line;
      for (const char* part : parts) {
        double measured = 0;
        for (const json& rank : run) {
          measured = std::max(measured, rank.at("memory").at(part).get<double>());
        }
        const double formula = run[0].at("formula").at(part);
        // Parameters begin at multiples of 64 bytes.
        EXPECT_NEAR(measured, formula, 0.01 * formula + 4096) << stage << " on " << ranks << part;
        std::snprintf(line, sizeof(line), "   %6.3f  %6.3f", measured / (1 << 20),
                      formula / (1 << 20));
        table_ += line;
      }
      table_ += "\n";
    }
  }
}

}  // namespace
}  // namespace muster
