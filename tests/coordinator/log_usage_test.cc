// How much output of whose jobs is kept, and who may submit.
#include "coordinator/periodic/log_usage.h"

#include <gtest/gtest.h>

#include "common/files/files.h"
#include "common/problem.h"
#include "coordinator/local/log_store.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

class LogUsageTest : public testing::Test {
 protected:
  void Put(uint64_t job, size_t bytes) {
    const std::string directory = paths_.LogDirectory(job);
    ASSERT_TRUE(common::MakeDirectories(directory).ok());
    ASSERT_TRUE(common::WriteFileDurably(directory + "/piece", std::string(bytes, 'x')).ok());
  }
  // A look from begin to end; how many steps it took.
  int LookAt(std::vector<LogUsage::Job> jobs) {
    LogUsage::Look look{.jobs = std::move(jobs)};
    int steps = 1;
    while (usage_.Measure(logs_, look)) ++steps;
    usage_.Publish(std::move(look));
    return steps;
  }
  absl::Status Room(const std::string& user_id) const {
    Caller caller{"user:alice", v1::ROLE_USER, "", ""};
    caller.user_id = user_id;
    return usage_.CheckRoom(caller);
  }

  const TempDir dir_;
  const Paths paths_{dir_.path()};
  const LocalLogStore logs_{paths_};
  LogUsage usage_{100'000};
};

TEST_F(LogUsageTest, WhoseJobsKeepTooMuchSubmitsNoMore) {
  EXPECT_TRUE(Room("5f0c").ok()) << "nothing is known yet";
  Put(1, 60'000);
  Put(2, 50'000);
  Put(3, 70'000);
  EXPECT_EQ(LookAt({{1, "user:alice#5f0c", true}, {2, "user:alice#5f0c"}, {3, "user:bob"}}), 1);
  EXPECT_EQ(usage_.ByOwner(),
            (std::map<std::string, uint64_t>{{"user:alice#5f0c", 110'000}, {"user:bob", 70'000}}));
  const absl::Status refused = Room("5f0c");
  EXPECT_EQ(common::CodeOf(refused), "JC1628");
  EXPECT_EQ(common::ProblemOf(refused).what,
            "the output of the jobs of user:alice takes 110 KB, and one person may have 100 KB");
  EXPECT_TRUE(Room("77aa").ok()) << "another person of that name";
  EXPECT_TRUE(LogUsage(0).CheckRoom({"user:bob", v1::ROLE_USER, "", ""}).ok()) << "0: no limit";
}

TEST_F(LogUsageTest, AFinishedJobIsMeasuredOnceAndARemovedOneIsForgotten) {
  Put(1, 60'000);
  Put(2, 10'000);
  const std::vector<LogUsage::Job> jobs = {{1, "user:alice", true}, {2, "user:alice"}};
  LookAt(jobs);
  Put(1, 90'000);
  Put(2, 20'000);
  LookAt(jobs);
  EXPECT_EQ(usage_.ByOwner().at("user:alice"), 80'000u) << "of the live one what it has now";
  LookAt({{2, "user:alice"}});
  EXPECT_EQ(usage_.ByOwner().at("user:alice"), 20'000u);
  EXPECT_GT(LookAt(std::vector<LogUsage::Job>(200, {7, "user:bob"})), 3) << "some at a time";
}

}  // namespace
}  // namespace muster::coordinator
