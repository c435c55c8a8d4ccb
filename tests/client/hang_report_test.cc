// The sentence over all ranks' records.
#include "client/diagnosis/hang_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::client {
namespace {

using nlohmann::json;

constexpr int64_t kMiB = 1 << 20;

// A rank of the group "default" with `world_size` ranks, whose collectives are all-reduces of 4
// MiB.
class Rank {
 public:
  Rank(int rank, int world_size) {
    for (int i = 0; i < world_size; ++i) all_.push_back(i);
    record_ = {{"version", 1},
               {"rank", rank},
               {"world_size", world_size},
               {"host", "node1"},
               {"groups", json::array({{{"name", "default"}, {"ranks", all_}, {"started", 0}}})},
               {"collectives", json::array()},
               {"threads", json::array()}};
  }
  Rank& Ended(uint64_t sequence, int64_t ago_ms) {
    return Add(sequence, "finished", "all_reduce", 4 * kMiB, ago_ms);
  }
  Rank& In(uint64_t sequence, int64_t age_ms, const char* operation = "all_reduce",
           int64_t bytes = 4 * kMiB) {
    return Add(sequence, "started", operation, bytes, age_ms);
  }
  Rank& At(const std::string& place) {
    record_["threads"].push_back({{"id", 7},
                                  {"name", "main"},
                                  {"training", true},
                                  {"place", place},
                                  {"frames", json::array()}});
    return *this;
  }
  RankRecord Read() const { return *ParseRankRecord(record_.dump()); }

 private:
  Rank& Add(uint64_t sequence, const char* state, const char* operation, int64_t bytes,
            int64_t time_ms) {
    record_["groups"][0]["started"] = sequence;
    record_["collectives"].push_back({{"group", "default"},
                                      {"ranks", all_},
                                      {"sequence", sequence},
                                      {"operation", operation},
                                      {"dtype", "float32"},
                                      {"bytes", bytes},
                                      {"state", state},
                                      {"age_ms", time_ms},
                                      {"ended_ms_ago", time_ms}});
    return *this;
  }

  std::vector<int> all_;
  json record_;
};

TEST(HangReport, NamesTheRankThatHasNotEnteredAndWhereItIs) {
  const HangReport report =
      MakeHangReport(4, {Rank(0, 4).In(12, 12'040).At("wait").Read(),
                         Rank(1, 4).Ended(11, 12'100).At("usleep < load_batch < train").Read(),
                         Rank(2, 4).In(12, 12'000).Read(), Rank(3, 4).In(12, 11'000).Read()});
  EXPECT_EQ(report.sentence,
            "rank 1 has not entered all_reduce #12 (4 MiB float32, group default); ranks 0, 2 and "
            "3 wait in it for 12.0 s; rank 1 is in usleep < load_batch < train");
  EXPECT_EQ(report.suspects, std::vector<int>{1});
  EXPECT_NE(report.table.find("1  node1  all_reduce #11 default  ended 12.1 s ago  usleep"),
            std::string::npos)
      << report.table;
}

TEST(HangReport, TellsRanksOfOnePlaceTogetherAndKeepsToTheFirstCollectiveThatDoesNotEnd) {
  // Rank 0 has started two at once; the ranks behind have started neither.
  std::vector<RankRecord> records = {Rank(0, 5).In(8, 3'000).In(9, 2'900).Read()};
  for (int rank = 1; rank < 5; ++rank) {
    records.push_back(Rank(rank, 5).Ended(7, 3'000).At("read < load").Read());
  }
  const HangReport report = MakeHangReport(5, records);
  EXPECT_EQ(report.sentence,
            "ranks 1 to 4 have not entered all_reduce #8 (4 MiB float32, group default); rank 0 "
            "waits in it for 3.0 s; ranks 1 to 4 are in read < load");
  EXPECT_EQ(report.suspects, (std::vector<int>{1, 2, 3, 4}));
}

TEST(HangReport, NamesTheRankWithAnotherOperationOrAnotherSize) {
  const HangReport operation =
      MakeHangReport(3, {Rank(0, 3).In(5, 9'000).Read(), Rank(1, 3).In(5, 9'000).Read(),
                         Rank(2, 3).In(5, 8'000, "broadcast", 8).Read()});
  EXPECT_EQ(operation.sentence,
            "the ranks disagree on collective #5 of group default: rank 2 runs broadcast of 8 "
            "bytes float32, ranks 0 and 1 run all_reduce of 4 MiB float32; waiting for 9.0 s");
  EXPECT_EQ(operation.suspects, std::vector<int>{2});
  const HangReport size =
      MakeHangReport(3, {Rank(0, 3).In(5, 9'000, "all_reduce", kMiB).Read(),
                         Rank(1, 3).In(5, 9'000).Read(), Rank(2, 3).In(5, 8'000).Read()});
  EXPECT_EQ(size.suspects, std::vector<int>{0});
}

TEST(HangReport, SaysWhenNothingWaits) {
  const HangReport report =
      MakeHangReport(2, {Rank(0, 2).Ended(3, 50).Read(), Rank(1, 2).Ended(3, 40).Read()});
  EXPECT_EQ(report.sentence,
            "no rank is waiting in a collective; the last one, all_reduce #3 (4 MiB float32, group "
            "default), ended 0.0 s ago");
  EXPECT_TRUE(report.suspects.empty());
  EXPECT_EQ(MakeHangReport(1, {Rank(0, 1).Read()}).sentence, "no rank has started a collective");
}

TEST(HangReport, SuspectsTheRankWithoutARecordOnlyWhenNobodyElseIsBehind) {
  const std::vector<RankRecord> waiting = {Rank(0, 3).In(4, 2'000).Read(),
                                           Rank(2, 3).In(4, 2'000).Read()};
  EXPECT_EQ(MakeHangReport(3, waiting).sentence,
            "rank 1 has no record: ranks 0 and 2 wait in all_reduce #4 (4 MiB float32, group "
            "default) for 2.0 s");
  EXPECT_EQ(MakeHangReport(3, waiting).suspects, std::vector<int>{1});
  const HangReport behind = MakeHangReport(
      3, {Rank(0, 3).In(4, 2'000).Read(), Rank(2, 3).Ended(3, 2'000).At("load").Read()});
  EXPECT_EQ(behind.sentence,
            "rank 2 has not entered all_reduce #4 (4 MiB float32, group default); rank 0 waits in "
            "it for 2.0 s; rank 2 is in load; no record of rank 1");
  EXPECT_EQ(behind.suspects, std::vector<int>{2});
  EXPECT_EQ(MakeHangReport(2, {}).sentence, "there is no record of any rank");
}

TEST(HangReport, BlamesNoRankWhenAllHaveEntered) {
  const HangReport report =
      MakeHangReport(2, {Rank(0, 2).In(4, 61'000).Read(), Rank(1, 2).In(4, 60'000).Read()});
  EXPECT_EQ(report.sentence,
            "every rank of group default has entered all_reduce #4 (4 MiB float32, group default), "
            "and ranks 0 and 1 wait in it for 61.0 s: it is slow, or the connection between the "
            "ranks is");
  EXPECT_TRUE(report.suspects.empty());
}

TEST(HangReport, SeesTwoRanksThatWaitForEachOther) {
  json other = json::parse(R"({"version":1,"rank":1,"world_size":2,"host":"b",
    "groups":[{"name":"default","ranks":[0,1],"started":2},{"name":"side","ranks":[0,1],"started":1}],
    "collectives":[{"group":"side","ranks":[0,1],"sequence":1,"operation":"barrier","bytes":0,
                    "state":"started","age_ms":4000}],
    "threads":[{"id":1,"name":"x","training":true,"place":"save < main","frames":[]}]})");
  const HangReport report =
      MakeHangReport(2, {Rank(0, 2).In(3, 5'000).Read(), *ParseRankRecord(other.dump())});
  EXPECT_EQ(
      report.sentence,
      "rank 1 has not entered all_reduce #3 (4 MiB float32, group default); rank 0 waits in "
      "it for 5.0 s; rank 1 is in barrier #1 (group side) instead, in save < main; rank 0 "
      "has not entered barrier #1 (group side); rank 0 is in all_reduce #3 (4 MiB float32, group "
      "default) instead, at an unknown place; they are waiting for each other: the ranks start "
      "these "
      "collectives in different orders");
}

TEST(HangReport, FollowsARankThatWaitsForYetAnother) {
  // 0 and 1 wait for 2 in the default group; 2 waits for 3 in its pair, and 3 is loading data.
  const auto rank = [](int number, uint64_t in_default, uint64_t in_pair, const char* place) {
    json groups =
        json::array({{{"name", "default"}, {"ranks", {0, 1, 2, 3}}, {"started", in_default}}});
    json running = json::array();
    const auto wait = [&](const char* group, json ranks, uint64_t sequence, int64_t age_ms) {
      running.push_back({{"group", group},
                         {"ranks", ranks},
                         {"sequence", sequence},
                         {"operation", "all_reduce"},
                         {"bytes", 0},
                         {"state", "started"},
                         {"age_ms", age_ms}});
    };
    if (in_default == 3) wait("default", {0, 1, 2, 3}, 3, 9'000);
    if (number >= 2) {
      groups.push_back({{"name", "pair"}, {"ranks", {2, 3}}, {"started", in_pair}});
      if (in_pair == 7) wait("pair", {2, 3}, 7, 8'000);
    }
    return *ParseRankRecord(
        json{{"rank", number},
             {"world_size", 4},
             {"groups", groups},
             {"collectives", running},
             {"threads", {{{"training", true}, {"place", place}, {"frames", json::array()}}}}}
            .dump());
  };
  const HangReport report =
      MakeHangReport(4, {rank(0, 3, 0, "wait"), rank(1, 3, 0, "wait"), rank(2, 2, 7, "wait"),
                         rank(3, 2, 6, "read < load")});
  EXPECT_EQ(
      report.sentence,
      "ranks 2 and 3 have not entered all_reduce #3 (group default); ranks 0 and 1 wait in it "
      "for 9.0 s; rank 2 is in all_reduce #7 (group pair) instead, in wait; rank 3 is in read "
      "< load");
}

TEST(RankRecord, IsReadWithoutTrust) {
  for (const char* bad : {"", "[]", "{", "{\"rank\":1}", "null", "{\"collectives\":[]}"}) {
    EXPECT_FALSE(ParseRankRecord(bad).ok()) << bad;
  }
  const auto odd = ParseRankRecord(
      R"({"rank":-5,"collectives":[1,{"sequence":-1,"ranks":[-1,"x",3],"operation":"a\u001b[31m"}],
          "groups":7,"threads":[{"frames":[3,{"offset":16}]}],"world_size":1e30})");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->rank, 0);
  EXPECT_EQ(odd->world_size, 0);
  ASSERT_EQ(odd->collectives.size(), 1u);
  EXPECT_EQ(odd->collectives[0].ranks, std::vector<int>{3});
  EXPECT_EQ(odd->collectives[0].operation.find('\x1b'), std::string::npos);
  ASSERT_EQ(odd->threads.size(), 1u);
  EXPECT_EQ(odd->threads[0].frames, std::vector<std::string>{"? in +0x10"});
}

}  // namespace
}  // namespace muster::client
