// Requests for ranks' records: how many at once, and when each is over.
#include "coordinator/contexts/diagnoses.h"

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

// A client's stream. Leave: it is closed, by either end.
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
  // Of a new job, unless one is named. 0: a look that began just now answers.
  absl::StatusOr<uint64_t> Open(const std::string& who, Diagnoses::Time until = kLater,
                                uint64_t job = 0, Diagnoses::Time now = kStart) {
    v1::DiagnosedAttempt attempt;
    attempt.set_job(job > 0 ? job : ++last_job_);
    attempt.set_attempt(1);
    attempt.set_world_size(2);
    v1::NodePart* part = attempt.add_parts();
    part->set_node("node1");
    part->set_local_world_size(2);
    streams_.push_back(std::make_shared<FakeRecords>());
    const auto number = diagnoses_.Open(
        attempt, {.principal = who, .now = now, .until = until, .stream = streams_.back()});
    if (!number.ok()) return number.status();
    return number->value_or(0);
  }
  bool Answer(uint64_t number, uint32_t rank, uint64_t job = 101, const std::string& text = "") {
    v1::RankDiagnosis diagnosis;
    diagnosis.set_job(job);
    diagnosis.set_record(text);
    diagnosis.set_attempt(1);
    diagnosis.set_number(number);
    diagnosis.set_rank(rank);
    return diagnoses_.Take("node1", diagnosis);
  }

  static constexpr Diagnoses::Time kStart{};
  static constexpr Diagnoses::Time kLater = kStart + std::chrono::seconds(10);
  Diagnoses diagnoses_;
  std::deque<Records> streams_;
  uint64_t last_job_ = 100;
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
  EXPECT_TRUE(Answer(number, 0)) << "a late answer does not count as an attack";
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

// Each look stops the ranks for a moment: 136 a second made one slower by 40 %.
TEST_F(DiagnosesTest, WhoAsksWithinASecondGetsTheAnswersOfTheLookBefore) {
  const uint64_t number = *Open("user:alice", kLater, 7);
  ASSERT_NE(number, 0u);
  ASSERT_TRUE(Answer(number, 1, 7));
  EXPECT_EQ(*Open("user:bob", kLater, 7), 0u) << "while it runs";
  ASSERT_EQ(streams_[1]->written.size(), 2u);
  EXPECT_TRUE(streams_[1]->written[0].has_attempt());
  EXPECT_EQ(streams_[1]->written[1].diagnosis().rank(), 1u);
  ASSERT_TRUE(Answer(number, 0, 7));
  for (const Records& stream : streams_) {
    EXPECT_EQ(stream->written.size(), 3u);
    EXPECT_TRUE(stream->closed.has_value() && stream->closed->ok());
  }
  EXPECT_EQ(*Open("user:carol", kLater, 7, kStart + std::chrono::milliseconds(999)), 0u)
      << "and when it is over";
  EXPECT_EQ(streams_[2]->written.size(), 3u);
  EXPECT_TRUE(streams_[2]->closed.has_value());
  EXPECT_NE(*Open("user:dan", kLater, 8), 0u) << "another job";
  EXPECT_NE(*Open("user:dan", kLater, 7, kStart + Diagnoses::kShared), 0u) << "a second later";
}

TEST_F(DiagnosesTest, TheAuditHasOneEntryForEachCallerJobAndMinute) {
  EXPECT_TRUE(diagnoses_.IsToRecord("user:alice", 7, kStart));
  EXPECT_FALSE(diagnoses_.IsToRecord("user:alice", 7, kStart + std::chrono::seconds(59)));
  EXPECT_TRUE(diagnoses_.IsToRecord("user:alice", 8, kStart));
  EXPECT_TRUE(diagnoses_.IsToRecord("user:bob", 7, kStart));
  EXPECT_TRUE(diagnoses_.IsToRecord("user:alice", 7, kStart + Diagnoses::kRecordedEvery));
  EXPECT_FALSE(diagnoses_.IsToRecord("user:alice", 7, kStart + Diagnoses::kRecordedEvery));
}

TEST_F(DiagnosesTest, AnswersThatAreTooLargeAreNotKeptAndNoSecondLookIsTaken) {
  const uint64_t number = *Open("user:alice", kLater, 7);
  ASSERT_TRUE(Answer(number, 0, 7, std::string(Diagnoses::kKeptBytesMax, 'x')));
  EXPECT_EQ(streams_[0]->written.size(), 2u);
  EXPECT_EQ(common::CodeOf(Open("user:bob", kLater, 7).status()), "JC1308");
  EXPECT_TRUE(diagnoses_.Expire(kStart + Diagnoses::kShared)) << "alice waits";
  EXPECT_NE(*Open("user:bob", kLater, 7, kStart + Diagnoses::kShared), 0u);
}

}  // namespace
}  // namespace muster::coordinator
