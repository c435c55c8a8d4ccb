// What the twins do not cover: errors, uneven inputs with known numbers, SyncBatchNorm, local SGD,
// the group.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "parallel/rank_output.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

TEST(UnusedParameters, AreNamedWhereTheOptionIsMissing) {
  const auto ranks = run_scenario(2, {"unused"});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].exit_code, 0) << ranks[rank].output;
    const std::string error = said(ranks[rank])["error"];
    EXPECT_EQ(
        error.find("rank " + std::to_string(rank) +
                   ": the last backward computed no gradient for the parameters 'spare.weight', "
                   "'spare.bias': "),
        0u)
        << error;
    EXPECT_NE(error.find("find_unused_parameters"), std::string::npos) << error;
  }
  EXPECT_EQ(said(ranks[0])["evaluates"], "yes");
}

TEST(StaticGraph, LearnsTheGraphInsideNoSyncToo) {
  for (auto& rank : outcome(2, {"static_graph"})) {
    // Means over the ranks of 6·(rank + 1) + 3·i.
    EXPECT_EQ(rank["gradients"], "9.000000 12.000000 15.000000 ");
    EXPECT_EQ(rank["idle"], "no");
  }
}

TEST(SecondBackward, OfOneForwardIsAveragedWhenItIsAnnouncedAndElseRefused) {
  for (auto& rank : outcome(2, {"second_backward"})) {
    EXPECT_NE(rank["unannounced"].find("parameter 'weight' got a second gradient"),
              std::string::npos)
        << rank["unannounced"];
    EXPECT_EQ(rank["gradient"], "12.000000");  // mean of 1 + 10 and 2 + 11
  }
}

TEST(Ranks, ThatDifferGetTheFirstDifference) {
  const std::map<std::string, std::string> expected = {
      {"shape",
       "parameter 6 is 'second.weight' Float [700, 300] on rank 1 and 'second.weight' "
       "Float [600, 300] on rank 0"},
      {"frozen",
       "parameter 6 is 'second.bias' Float [600] on rank 1 and 'second.weight' Float "
       "[600, 300] on rank 0"},
      {"buffer", "buffer 'norm.more' Float [2] on rank 1"},
      {"option", "bucket_cap_mb 7"},
      {"strides",
       "parameter 6 is 'second.weight' Float [600, 300] with strides [1, 600] on rank 1 and "
       "'second.weight' Float [600, 300] on rank 0"}};
  for (auto& rank :
       outcome(2, {"agreement", "shape", "frozen", "buffer", "option", "strides", "nothing"})) {
    for (const auto& [what, text] : expected) {
      EXPECT_NE(rank[what].find(text), std::string::npos) << rank[what];
    }
    EXPECT_EQ(rank["nothing"], "none");
  }
}

TEST(UnevenInputs, GiveTheMeanOverAllRanksOrOverThoseThatStillTrain) {
  // Rank r has r + 1 batches with the gradient 2^r: the sums of each iteration are known.
  const std::map<int, std::pair<double, double>> expected = {{2, {-2.5, -3.5}},
                                                             {3, {-17.0 / 3, -28.0 / 3}}};
  for (const auto& [world_size, values] : expected) {
    for (auto& rank : outcome(world_size, {"join_numbers"})) {
      EXPECT_NEAR(std::stod(rank["by_all"]), values.first, 1e-5);
      EXPECT_NEAR(std::stod(rank["by_active"]), values.second, 1e-5);
      EXPECT_NEAR(std::stod(rank["by_all_second"]), 3 * values.first, 1e-5);
      EXPECT_NEAR(std::stod(rank["by_active_second"]), 3 * values.second, 1e-5);
      EXPECT_NEAR(std::stod(rank["by_all_after"]), values.first - 1, 1e-5);
      EXPECT_NEAR(std::stod(rank["by_active_after"]), values.second - 1, 1e-5);
    }
  }
}

TEST(UnevenInputs, AllowRanksWithoutBatchesAndNoSyncAndCanThrow) {
  auto ranks = outcome(2, {"join_edges"});
  for (auto& rank : ranks) {
    EXPECT_EQ(rank["without_batches"], "-2.000000");
    EXPECT_EQ(rank["accumulated"], "-8.000000");
    EXPECT_EQ(rank["leaves"], "all ranks leave");
    EXPECT_NE(rank["nested"].find("already in such a scope"), std::string::npos);
    EXPECT_EQ(rank["end"], "-10.000000");
  }
  EXPECT_EQ(ranks[0]["throws"].find("rank 0 has exhausted its inputs"), 0u) << ranks[0]["throws"];
  EXPECT_EQ(ranks[1]["throws"].find("rank 1: another rank has exhausted"), 0u)
      << ranks[1]["throws"];
}

TEST(SyncBatchNorm, EqualsBatchNormOnTheBatchesOfAllRanksTogether) {
  for (const int world_size : {1, 2, 3}) {
    for (auto& rank : outcome(world_size, {"sync_batch_norm"})) {
      for (const char* name : {"dense", "lines", "images", "volumes", "plain"}) {
        EXPECT_LT(std::stod(rank[name]), 1e-6) << name << " on " << world_size << " ranks";
      }
      EXPECT_LT(std::stod(rank["double"]), 1e-13);
      EXPECT_EQ(rank["names"], "yes");
      EXPECT_EQ(rank["refuses_shape"], "yes");
      if (world_size == 1) continue;
      EXPECT_LT(std::stod(rank["empty"]), 1e-6);
      EXPECT_EQ(rank["refuses_second_derivative"], "yes");
    }
  }
}

TEST(LocalSGD, AveragesTheParametersEveryKStepsAndAtTheEnd) {
  auto ranks = outcome(2, {"local_sgd"});
  EXPECT_EQ(ranks[0]["values"], "-1.000000 -3.000000 -4.000000 -4.500000");
  EXPECT_EQ(ranks[1]["values"], "-2.000000 -3.000000 -5.000000 -4.500000");
  for (auto& rank : ranks) {
    EXPECT_EQ(rank["after"], "-6.000000");
    EXPECT_EQ(rank["disabled"], "-7.500000");
    EXPECT_NE(rank["refused"].find("steps is 0"), std::string::npos);
  }
}

TEST(Timings, AreTakenForTheFirstTenIterationsAndThenPeriodically) {
  for (auto& rank : outcome(2, {"timings"})) {
    EXPECT_EQ(rank["before"], "no");
    EXPECT_EQ(rank["sane"], "yes");
    EXPECT_EQ(rank["iterations"], "1 2 3 4 5 6 7 8 9 10 10 10 10 10 15 15 15 15 15 20 20 ");
  }
}

TEST(Alone, EverythingWorksAndReducesNothing) {
  auto ranks = outcome(1, {"alone"});
  EXPECT_EQ(ranks[0]["value"], "-2.000000");
  EXPECT_EQ(ranks[0]["timings"], "no");
  EXPECT_EQ(ranks[0]["buckets"], "0");
  EXPECT_EQ(ranks[0]["side_group"], "no");
  EXPECT_NE(ranks[0]["refused"].find("bucket_cap_mb is 0"), std::string::npos);
}

TEST(SideGroup, WorksInTheBackgroundWhateverTheOrderOfTheOthers) {
  for (auto& rank : outcome(3, {"side_group"})) {
    EXPECT_EQ(rank["background"], "yes");
    EXPECT_EQ(rank["foreground"], "yes");
    EXPECT_EQ(rank["second"], "yes");
  }
}

TEST(SubGroups, HoldTheRanksOfTheirListsInThatOrder) {
  auto ranks = outcome(4, {"sub_groups"});
  const std::vector<std::string> places = {"0", "1", "1", "0"};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank]["rank"], places[rank]);
    EXPECT_EQ(ranks[rank]["size"], "2");
    EXPECT_EQ(ranks[rank]["sum"], rank % 2 == 0 ? "5.000000" : "10.000000");
    EXPECT_EQ(ranks[rank]["first"], rank % 2 == 0 ? "0" : "3");
    EXPECT_EQ(ranks[rank]["fit"], "yes");
    EXPECT_EQ(ranks[rank]["side"], "yes");
    EXPECT_EQ(ranks[rank]["alone"], "yes");
  }
}

TEST(SubGroups, OfListsThatDoNotFitTogetherAreRefusedOnAllRanks) {
  for (auto& rank : outcome(4, {"sub_groups"})) {
    const auto starts = [&](const char* what, const std::string& text) {
      EXPECT_EQ(rank[what].find("make_sub_group: " + text), 0u) << rank[what];
    };
    starts("stranger", "rank 1 requests stranger {1, 3, 4}, but rank 4 does not exist: every rank");
    starts("twice", "rank 0 requests twice {0, 1, 2, 3, 0}, but rank 0 is listed twice");
    starts("disagree", "rank 1 requests disagree {0, 1, 3}, but rank 0 requests disagree {0, 2}");
    starts("missing", "rank 3 requests missing {0, 1, 2}, but it is not in that list");
  }
}

TEST(ARankThatLeavesByAnException, FreesTheOthersAndItself) {
  for (const std::string how : {"waits", "shared", "sub", "works"}) {
    const TemporaryDirectory directory;
    const std::string fifo = directory / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    const auto ranks = run_scenario(2, {"leave", how, fifo});
    EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].output;
    EXPECT_NE(ranks[0].output.find("rank 0 has left"), std::string::npos) << ranks[0].output;
    EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].output;
    EXPECT_NE(said(ranks[1])["error"], "") << ranks[1].output;
    EXPECT_EQ(said(ranks[1])["heard"], how == "works" ? "left" : "");
  }
}

TEST(TheStore, ListensWhereRanksAreToldToMeetAlone) {
  for (auto& rank : outcome(2, {"meeting_place"})) {
    EXPECT_EQ(rank["127.0.0.1"], "yes");
    EXPECT_EQ(rank["127.0.0.2"], "no") << "torch's own listens at every address";
  }
}

TEST(AnEndingGroup, ClosesOnlyItsOwnConnections) {
  for (auto& rank : outcome(3, {"strangers"})) {
    EXPECT_EQ(rank["ended"], "3");
    EXPECT_EQ(rank["opened"], "yes");
    EXPECT_EQ(rank["all_work"], "yes");
  }
}

}  // namespace
}  // namespace muster
