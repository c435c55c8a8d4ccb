// Requests for ranks' records: how many at once, and when each is over.
#include "coordinator/rpc/diagnosis.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/problem.h"

namespace muster::coordinator {
namespace {

// A client's stream. Leave: it is gone, whoever ended it.
class FakeRecords final : public Sink<v1::DiagnoseJobUpdate> {
 public:
  void Write(v1::DiagnoseJobUpdate update) override { written.push_back(std::move(update)); }
  void Close(const absl::Status& status) override {
    if (!closed.has_value()) closed = status;
  }
  size_t QueuedBytes() const override { return 0; }
  bool Gone() const override { return false; }
  void Observe(std::function<void()>, std::function<void()> gone) override {
    gone_ = std::move(gone);
  }
  void Leave() { std::exchange(gone_, nullptr)(); }
  std::vector<v1::DiagnoseJobUpdate> written;
  std::optional<absl::Status> closed;

 private:
  std::function<void()> gone_;
};

class DiagnosesTest : public testing::Test {
 protected:
  using Records = std::shared_ptr<FakeRecords>;
  absl::StatusOr<uint64_t> Open(const std::string& who, Diagnoses::Time until = kLater) {
    v1::DiagnosedAttempt attempt;
    attempt.set_job(7);
    attempt.set_attempt(1);
    attempt.set_world_size(2);
    v1::NodePart* part = attempt.add_parts();
    part->set_node("node1");
    part->set_local_world_size(2);
    streams_.push_back(std::make_shared<FakeRecords>());
    return diagnoses_.Open(attempt, who, until, streams_.back());
  }
  bool Answer(uint64_t number, uint32_t rank) {
    v1::RankDiagnosis diagnosis;
    diagnosis.set_job(7);
    diagnosis.set_attempt(1);
    diagnosis.set_number(number);
    diagnosis.set_rank(rank);
    return diagnoses_.Take("node1", diagnosis);
  }

  static constexpr Diagnoses::Time kStart{};
  static constexpr Diagnoses::Time kLater = kStart + std::chrono::seconds(10);
  Diagnoses diagnoses_;
  std::deque<Records> streams_;
};

TEST_F(DiagnosesTest, OneMayAskTwiceAtOnceAndAllTogetherThirtyTwoTimes) {
  ASSERT_TRUE(Open("user:alice").ok());
  ASSERT_TRUE(Open("user:alice").ok());
  const absl::Status third = Open("user:alice").status();
  EXPECT_EQ(common::CodeOf(third), "JC1308");
  EXPECT_NE(third.message().find("user:alice"), std::string::npos);
  size_t open = 2;
  while (Open("user:" + std::to_string(open)).ok()) ASSERT_LT(++open, 100u);
  EXPECT_EQ(open, Diagnoses::kStreamsMax);
}

TEST_F(DiagnosesTest, ARequestIsOverWhenItsClientLeaves) {
  const uint64_t number = *Open("user:alice");
  ASSERT_TRUE(Open("user:alice").ok());
  streams_[0]->Leave();
  EXPECT_TRUE(Answer(number, 0)) << "a late answer is no attack";
  EXPECT_EQ(streams_[0]->written.size(), 1u) << "nothing is kept for a client that left";
  EXPECT_TRUE(Open("user:alice").ok());
}

TEST_F(DiagnosesTest, AnAnsweredRequestCountsUntilItsClientHasReadTheRecords) {
  const uint64_t number = *Open("user:alice");
  ASSERT_TRUE(Open("user:alice").ok());
  Answer(number, 0);
  Answer(number, 1);
  ASSERT_TRUE(streams_[0]->closed.has_value());
  EXPECT_FALSE(Open("user:alice").ok());
  streams_[0]->Leave();
  EXPECT_TRUE(Open("user:alice").ok());
}

TEST_F(DiagnosesTest, OneTimerEndsAllRequestsWhoseTimeIsUp) {
  EXPECT_FALSE(diagnoses_.BeginExpiring());
  ASSERT_TRUE(Open("user:alice", kStart + std::chrono::seconds(1)).ok());
  EXPECT_TRUE(diagnoses_.BeginExpiring());
  ASSERT_TRUE(Open("user:bob", kStart + std::chrono::seconds(2)).ok());
  EXPECT_FALSE(diagnoses_.BeginExpiring()) << "one is enough";
  EXPECT_TRUE(diagnoses_.Expire(kStart + std::chrono::seconds(1)));
  EXPECT_TRUE(streams_[0]->closed.has_value());
  EXPECT_FALSE(streams_[1]->closed.has_value());
  EXPECT_FALSE(diagnoses_.Expire(kStart + std::chrono::seconds(2)));
  EXPECT_TRUE(streams_[1]->closed->ok());
  ASSERT_TRUE(Open("user:carol").ok());
  EXPECT_TRUE(diagnoses_.BeginExpiring()) << "and again for the next";
}

}  // namespace
}  // namespace muster::coordinator
