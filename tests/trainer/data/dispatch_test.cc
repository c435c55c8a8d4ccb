// Batches that rank 0 reads for all ranks, with real ranks.
#include <gtest/gtest.h>

#include "data/loader_world.h"
#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<std::string> outputs_of(const std::string& scenario, int world_size, int workers) {
  std::vector<std::string> outputs;
  for (const ChildResult& result : run_ranks(
           {.argv = {TestBuild("bin/tests/dispatch_ranks"), scenario, std::to_string(workers)},
 .world_size = world_size,
 .environment = {{"OMP_NUM_THREADS", "1"}}})) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    outputs.push_back(result.output);
  }
  return outputs;
}

// What a rank prints if every rank reads its own batches.
template <typename Dataset>
std::vector<std::string> expected_of(const Dataset& dataset, const DataLoaderOptions& options,
                                     int world_size, const DataLoaderConfiguration& configuration) {
  std::vector<std::string> outputs;
  for (const auto& loader : world_of(dataset, options, world_size, configuration)) {
    outputs.emplace_back();
    for (int pass = 0; pass < 2; ++pass) {
      for (const Seen& seen : run(loader)) {
        for (const int64_t number : seen.batch) outputs.back() += std::to_string(number) + ",";
        outputs.back() += " " + std::to_string(seen.remainder) + " " + (seen.last ? "1" : "0") +
                          " " + std::to_string(seen.position.consumed) + "\n";
      }
      outputs.back() += "epoch " + std::to_string(loader.epoch()) + "\n";
    }
  }
  return outputs;
}

TEST(Dispatch, GivesEveryRankWhatItWouldReadItself) {
  const DataLoaderOptions shuffled{.batch_size = 2, .shuffle = true};
  EXPECT_EQ(outputs_of("map", 3, 2), expected_of(Numbers{17}, shuffled, 3, {}));
  EXPECT_EQ(outputs_of("map", 2, 0), expected_of(Numbers{17}, shuffled, 2, {}));
  EXPECT_EQ(outputs_of("stream", 3, 1), expected_of(NumberStream{17}, {.batch_size = 2}, 3, {}));
}

TEST(Dispatch, GivesNoSampleTwiceWithoutEvenBatches) {
  EXPECT_EQ(outputs_of("uneven", 4, 0),
            expected_of(Numbers{17}, {.batch_size = 2}, 4, {.even_batches = false}));
}

TEST(Dispatch, CarriesFormAndPlainPartsOfEveryBatch) {
  const auto outputs = outputs_of("structure", 2, 0);
  EXPECT_EQ(outputs[0], "0 1 0,1, 1\n4 1 4,4,5,5, 2\n8 1 8,8,8,9,9,9, 3\n");
  EXPECT_EQ(outputs[1], "0 1 2,3, 1\n4 1 6,6,7,7, 2\n8 1 10,10,10,11,11,11, 3\n");
}

TEST(Dispatch, TellsEveryRankWhyRankZeroHasNoBatch) {
  for (const int workers : {0, 2}) {
    for (const std::string& output : outputs_of("error", 2, workers)) {
      EXPECT_NE(output.find("error at 8: "), std::string::npos) << output;
      EXPECT_NE(output.find("rank 0: sample 9 of epoch 0: the disk is broken"), std::string::npos)
          << output;
    }
  }
}

}  // namespace
}  // namespace muster
