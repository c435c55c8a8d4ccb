// Kinds of training that cases.json lacks, under Muster and under Hugging Face Accelerate: two real
// ranks each, every recorded loss, norm and final weight equal in every bit.
#include <gtest/gtest.h>

#include "parity/parity_files.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

// None is an exception: all are equal in every bit.
const std::vector<std::string> kKindNames = {"bfloat16_weights", "carried_lstm_state",
                                             "complex_weights",  "contrastive_pairs",
                                             "ctc_alignment",    "denoiser_with_average",
                                             "distillation",     "double_weights",
                                             "embedding_bags",   "experts",
                                             "gradient_penalty", "graph_net",
                                             "packed_attention", "packed_gru",
                                             "proximal_policy",  "sparse_embedding",
                                             "state_space_scan", "streamed_samples",
                                             "tied_layers",      "variational_autoencoder"};

TEST(Kinds, EqualAcceleratesInEveryBit) {
  const TemporaryDirectory directory;
  constexpr std::chrono::seconds kDeadline{200};
  run_side({TestPython(), "-Wignore", TestSource("tests/trainer/parity/kinds/kind_twin.py"),
            directory.path()},
           kDeadline);
  run_side({TestBuild("bin/tests/trainer_parity_kind_ranks"), directory.path()}, kDeadline);
  if (HasFatalFailure()) return;
  for (int rank = 0; rank < kParityRanks; ++rank) {
    const std::string end = "." + std::to_string(rank) + ".json";
    const auto ours = read_json(directory / ("muster" + end));
    const auto theirs = read_json(directory / ("python" + end));
    EXPECT_EQ(ours.size(), kKindNames.size());
    for (const std::string& name : kKindNames) {
      SCOPED_TRACE(name + " on rank " + std::to_string(rank));
      const auto &values = ours.at(name).at("values"), &wanted = theirs.at(name).at("values");
      ASSERT_EQ(values.size(), wanted.size());
      EXPECT_GE(values.size(), 20u);
      for (size_t i = 0; i < values.size(); ++i) {
        const double value = std::strtod(values[i].get<std::string>().c_str(), nullptr);
        EXPECT_EQ(value, std::strtod(wanted[i].get<std::string>().c_str(), nullptr))
            << "value " << i;
      }
      EXPECT_EQ(ours.at(name).at("weights"), theirs.at(name).at("weights"));
    }
  }
}

}  // namespace
}  // namespace muster
