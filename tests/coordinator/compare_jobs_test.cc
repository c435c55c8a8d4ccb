// The call CompareJobs: all points as they count, what cannot be compared, and its bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/problem.h"
#include "coordinator/calls/handlers.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/coordinator/workers_daemon.h"
#include "tests/stores/metric_sender.h"

namespace muster::coordinator {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Logged {
  std::string name = "loss";
  uint32_t attempt = 0;
  uint32_t rank = 0;
};

class CompareJobsTest : public testing::Test {
 protected:
  // No node takes it: it stays alive.
  uint64_t MakeJob() {
    v1::SubmitRequest request;
    request.set_queue_anyway(true);
    request.mutable_spec()->add_command("true");
    request.mutable_spec()->set_workdir("/");
    request.mutable_spec()->mutable_shape()->set_processes(1);
    request.mutable_spec()->mutable_shape()->mutable_device()->set_kind("cpu");
    std::promise<absl::StatusOr<v1::SubmitResponse>> told;
    call::Submit::Handle(
        coordinator_.daemon(), caller_, request,
        [&told](absl::StatusOr<v1::SubmitResponse> answer) { told.set_value(answer); });
    const absl::StatusOr<v1::SubmitResponse> answer = told.get_future().get();
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer->job();
  }

  // One value for each step from `first` on.
  void Log(uint64_t job, const std::vector<double>& values, const Logged& as = {},
           int64_t first = 1) {
    v1::MetricBatch batch;
    for (const double value : values) AddPoint(batch, as.name, first++, value);
    Append(job, as, std::move(batch));
  }
  static void AddPoint(v1::MetricBatch& batch, const std::string& name, int64_t step,
                       double value) {
    v1::MetricPoint& point = *batch.add_points();
    point.set_name(name);
    point.set_step(step);
    point.set_value(value);
  }
  void Append(uint64_t job, const Logged& as, v1::MetricBatch batch) {
    batch.set_job(job);
    batch.set_attempt(as.attempt);
    batch.set_rank(as.rank);
    batch.set_source("socket");
    batch.set_seq(++seqs_[{job, as.attempt, as.rank}]);
    coordinator_.daemon().stores.metrics.Append(std::move(batch), sender_);
    sender_->WaitForCount(++sent_);
    EXPECT_EQ(sender_->Refusals(), 0);
  }

  uint64_t JobWith(const std::vector<double>& values, const Logged& as = {}, int64_t first = 1) {
    const uint64_t job = MakeJob();
    Log(job, values, as, first);
    return job;
  }

  static v1::CompareJobsRequest Of(const std::vector<uint64_t>& jobs,
                                   const std::string& rtol = "") {
    v1::CompareJobsRequest request;
    for (const uint64_t job : jobs) request.add_jobs(std::to_string(job));
    request.set_rtol(rtol);
    return request;
  }

  absl::StatusOr<v1::CompareJobsResponse> Ask(const v1::CompareJobsRequest& request) {
    std::promise<absl::StatusOr<v1::CompareJobsResponse>> told;
    call::CompareJobs::Handle(
        coordinator_.daemon(), caller_, request,
        [&told](absl::StatusOr<v1::CompareJobsResponse> answer) { told.set_value(answer); });
    return told.get_future().get();
  }

  // The only comparison.
  v1::JobComparison Compared(const v1::CompareJobsRequest& request) {
    const absl::StatusOr<v1::CompareJobsResponse> answer = Ask(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok() || answer->comparisons_size() != 1) return {};
    return answer->comparisons(0);
  }

  std::string Refused(const v1::CompareJobsRequest& request) {
    return common::CodeOf(Ask(request).status());
  }

 private:
  const TempDir temp_;
  WorkersDaemon coordinator_{temp_.path()};
  const Caller caller_{.principal = "user:alice"};
  const std::shared_ptr<MetricSender> sender_ = std::make_shared<MetricSender>();
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint64_t> seqs_;
  int sent_ = 0;
};

TEST_F(CompareJobsTest, EveryPointOfALongRunCountsAndFewRowsAreSent) {
  std::vector<double> values(25'000, 2);
  const uint64_t baseline = JobWith(values);
  values[12'344] = 2.5;
  const v1::JobComparison said = Compared(Of({baseline, JobWith(values)}, "10%"));
  EXPECT_EQ(said.compared(), 25'000u);
  EXPECT_EQ(said.past(), 1u);
  EXPECT_EQ(said.first_past().at(), 12'345);
  EXPECT_EQ(said.first_step_past().at(), 12'345);
  EXPECT_EQ(said.largest_rel().rel(), 0.25);
  EXPECT_EQ(said.mean_abs(), 0.5 / 25'000);
  EXPECT_EQ(said.verdict(), "FAIL");
  EXPECT_NE(said.head().find(": 25000 steps, 1 past the limit"), std::string::npos) << said.head();
  EXPECT_EQ(said.lines(3), "first past the limit: step 12345 (2 and 2.5, rel 25%)");
  ASSERT_EQ(said.rows_size(), 42);
  int past = 0;
  for (const v1::ComparedRow& row : said.rows()) {
    if (!row.past()) continue;
    ++past;
    EXPECT_EQ(row.at(), 12'345);
    EXPECT_EQ((std::vector<std::string>{row.texts().begin(), row.texts().end()}),
              (std::vector<std::string>{"2", "2.5", "0.5", "25%"}));
  }
  EXPECT_EQ(past, 1);
}

TEST_F(CompareJobsTest, TheNewestAttemptAndTheLowestRankCountAndOfARunningJobWhatItHasLogged) {
  const uint64_t baseline = JobWith({1, 2, 3, 4});
  const uint64_t job = MakeJob();
  Log(job, {9, 9, 9, 9}, {.rank = 1});
  Log(job, {1, 7, 7}, {.rank = 0});
  Log(job, {2, 3}, {.attempt = 1}, 2);
  v1::CompareJobsRequest request = Of({baseline, job}, "0");
  v1::JobComparison said = Compared(request);
  EXPECT_EQ(said.compared(), 3u);
  EXPECT_EQ(said.past(), 0u);
  EXPECT_EQ(said.only_baseline(), 1u);
  Log(job, {4}, {.attempt = 1}, 4);
  EXPECT_EQ(Compared(request).compared(), 4u);
  EXPECT_EQ(Compared(request).verdict(), "PASS");
  request.set_rank(1);
  EXPECT_EQ(Ask(request)->comparisons(0).problem().code(), "JC1541")
      << "the baseline has no rank 1";
}

TEST_F(CompareJobsTest, NanInfinityAndABaselineOfZeroAreSaid) {
  const uint64_t baseline = JobWith({1, 0, kNan, 4});
  const uint64_t job = JobWith({1, 1, kNan, INFINITY});
  const v1::JobComparison said = Compared(Of({baseline, job}));
  EXPECT_EQ(said.verdict(), "FAIL");
  EXPECT_EQ(said.past(), 2u);
  EXPECT_EQ(said.not_finite(), 2u);
  EXPECT_EQ(said.zero_baseline(), 1u);
  EXPECT_EQ(said.first_past().at(), 3);
  EXPECT_TRUE(std::isinf(said.rows(1).rel()));
  EXPECT_EQ(said.rows(1).texts(3), "inf%");
  EXPECT_EQ(said.largest_abs().at(), 2);
  EXPECT_EQ(said.largest_rel().at(), 1);
  EXPECT_EQ(Compared(Of({baseline, baseline}, "1")).verdict(), "FAIL") << "NaN is past any limit";
  EXPECT_EQ(Compared(Of({job, JobWith({1, 1})})).verdict(), "not judged");
}

TEST_F(CompareJobsTest, ByEpochWhereAllKnowThemOtherwiseByStep) {
  const uint64_t baseline = JobWith({4, 2, 1, 1});
  Log(baseline, {0.5, 1, 1.5, 2}, {.name = "epoch"});
  const uint64_t job = JobWith({3, 1.5});
  v1::CompareJobsRequest request = Of({baseline, job}, "0.1");
  EXPECT_EQ(Ask(request)->by(), v1::COMPARE_BY_STEP);
  request.set_by(v1::COMPARE_BY_EPOCH);
  const v1::JobComparison unknown = Compared(request);
  EXPECT_EQ(unknown.problem().code(), "JC1542");
  EXPECT_TRUE(unknown.verdict().empty());
  Log(job, {1, 2}, {.name = "epoch"});
  request.set_by(v1::COMPARE_BY_UNSPECIFIED);
  EXPECT_EQ(Ask(request)->by(), v1::COMPARE_BY_EPOCH);
  const v1::JobComparison said = Compared(request);
  EXPECT_EQ(said.compared(), 2u);
  EXPECT_EQ(said.first_past().at(), 2);
  EXPECT_EQ(said.first_step_past().at(), 1);
  request.set_steps_per_epoch(1);
  EXPECT_EQ(Compared(request).compared(), 2u);
  EXPECT_EQ(Compared(request).first_past().at(), 1) << "each step is an epoch";
}

TEST_F(CompareJobsTest, WhatCannotBeComparedIsSaidAndTheOthersAreCompared) {
  const uint64_t baseline = JobWith({1, 2});
  const absl::StatusOr<v1::CompareJobsResponse> answer =
      Ask(Of({baseline, JobWith({1}, {}, 100), JobWith({1, 2})}));
  ASSERT_EQ(answer->comparisons_size(), 2);
  EXPECT_EQ(answer->comparisons(0).problem().code(), "JC1541");
  EXPECT_NE(answer->comparisons(0).problem().what().find("has 100 to 100"), std::string::npos);
  EXPECT_FALSE(answer->comparisons(1).has_problem());
  EXPECT_EQ(answer->comparisons(1).compared(), 2u);
  EXPECT_EQ(Refused(Of({baseline, JobWith({1}, {.name = "accuracy"})})), "JC1503");
  EXPECT_EQ(Refused(Of({baseline, MakeJob()})), "JC1503") << "it has logged nothing";
  EXPECT_EQ(Refused(Of({baseline, 999})), "JC1201");
  v1::CompareJobsRequest request = Of({baseline, baseline});
  request.add_metrics("los");
  EXPECT_NE(common::ProblemOf(Ask(request).status()).what.find("did you mean \"loss\"?"),
            std::string::npos);
}

TEST_F(CompareJobsTest, RequestsThatMeanNothingAreRefused) {
  const uint64_t job = MakeJob();
  EXPECT_EQ(Refused(Of({job})), "JC1004");
  EXPECT_EQ(Refused(Of(std::vector<uint64_t>(17, job))), "JC1004");
  const absl::Status bad = Ask(Of({job, job}, "2 percent")).status();
  EXPECT_EQ(common::ProblemOf(bad).what, "rtol takes a number of at least 0, not \"2 percent\"");
  v1::CompareJobsRequest request = Of({job, job});
  for (int i = 0; i < 65; ++i) request.add_metrics("m" + std::to_string(i));
  EXPECT_EQ(Refused(request), "JC1004");
}

TEST_F(CompareJobsTest, AnAnswerHasAsManyComparisonsAsFitAndCountsTheOthers) {
  const uint64_t job = MakeJob();
  v1::MetricBatch batch;
  for (int i = 0; i < 1'000; ++i) {
    AddPoint(batch, std::string(1'000, 'x') + std::to_string(i), 1, 1);
  }
  Append(job, {}, std::move(batch));
  v1::CompareJobsRequest request = Of({job, job}, "0");
  request.add_metrics("*");
  const absl::StatusOr<v1::CompareJobsResponse> answer = Ask(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GT(answer->comparisons_left_out(), 0u);
  EXPECT_EQ(answer->comparisons_size() + answer->comparisons_left_out(), 1'000u);
  EXPECT_LT(answer->ByteSizeLong(), size_t{3} << 20);
  EXPECT_EQ(Refused(Of(std::vector<uint64_t>(16, job))), "JC1544") << "so many names";
  Log(job, {1}, {.name = "one more"});
  EXPECT_EQ(Refused(request), "JC1004");
}

TEST_F(CompareJobsTest, MorePointsThanACallHoldsAreRefused) {
  const uint64_t job = MakeJob();
  const std::vector<double> many(100'000, 1);
  for (int64_t i = 0; i < 6; ++i) Log(job, many, {}, 1 + i * 100'000);
  EXPECT_EQ(Compared(Of({JobWith({1}), job})).compared(), 1u);
  const absl::Status refused = Ask(Of({job, job})).status();
  EXPECT_EQ(common::CodeOf(refused), "JC1544");
  EXPECT_NE(common::ProblemOf(refused).fix.find("jobctl compare"), std::string::npos);
}

}  // namespace
}  // namespace muster::coordinator
