// Curves: buckets that are exact, the effective history, and reading on where the last look stopped.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "coordinator/curves/curve.h"
#include "coordinator/curves/curve_cache.h"
#include "coordinator/curves/job_curves.h"
#include "tests/stores/engines.h"
#include "tests/stores/metric_sender.h"

namespace muster::coordinator {
namespace {

using Steps = std::vector<int64_t>;
using Values = std::vector<double>;

v1::MetricPoint PointAt(int64_t step, double value) {
  v1::MetricPoint point;
  point.set_name("loss");
  point.set_step(step);
  point.set_value(value);
  point.set_time_ms(static_cast<int64_t>(1'000 + static_cast<uint64_t>(step)));
  return point;
}

Steps StepsOf(const v1::Curve& curve) { return {curve.steps().begin(), curve.steps().end()}; }
Values LastOf(const v1::Curve& curve) { return {curve.last().begin(), curve.last().end()}; }

TEST(CurveBuckets, FewPointsAreAllThere) {
  CurveBuckets buckets(8);
  for (const int64_t step : {3, 1, 2, 2}) buckets.Add(PointAt(step, static_cast<double>(step)));
  const v1::Curve curve = buckets.Draw({}, 8);
  EXPECT_EQ(StepsOf(curve), (Steps{1, 2, 3}));
  EXPECT_EQ(curve.steps_per_bucket(), 1);
  EXPECT_EQ(curve.points(), 4u);
  EXPECT_EQ(curve.times_ms(2), 1'003);
  EXPECT_EQ(curve.min_size(), 0);
}

TEST(CurveBuckets, ManyPointsKeepTheirExtremesWhateverTheOrder) {
  CurveBuckets ascending(16);
  CurveBuckets shuffled(16);
  for (int64_t step = 0; step < 1'000; ++step) {
    const auto value = [](int64_t at) { return at == 500 ? -9.0 : static_cast<double>(at % 7); };
    ascending.Add(PointAt(step, value(step)));
    const int64_t other = step * 387 % 1'000;
    shuffled.Add(PointAt(other, value(other)));
  }
  const v1::Curve curve = ascending.Draw({}, 16);
  EXPECT_EQ(curve.DebugString(), shuffled.Draw({}, 16).DebugString());
  EXPECT_EQ(curve.steps_per_bucket(), 64);
  EXPECT_EQ(curve.points(), 1'000u);
  ASSERT_EQ(curve.steps_size(), 16);
  EXPECT_EQ(curve.steps(0), 63);
  EXPECT_EQ(curve.steps(15), 999);
  EXPECT_EQ(curve.min(7), -9.0);
  EXPECT_EQ(curve.max(7), 6.0);
  EXPECT_EQ(ascending.Draw({}, 4).steps_size(), 4);
  EXPECT_EQ(ascending.Draw({}, 1).steps_size(), 1);
}

TEST(CurveBuckets, ExtremeStepsAndValuesThatAreNoNumbers) {
  CurveBuckets buckets(2);
  buckets.Add(PointAt(INT64_MIN, NAN));
  buckets.Add(PointAt(INT64_MAX, 1));
  buckets.Add(PointAt(-1, NAN));
  buckets.Add(PointAt(0, INFINITY));
  buckets.Add(PointAt(1, 2));
  const v1::Curve curve = buckets.Draw({}, 2);
  ASSERT_EQ(curve.steps_size(), 2);
  EXPECT_EQ(StepsOf(curve), (Steps{-1, INT64_MAX}));
  EXPECT_TRUE(std::isnan(curve.min(0)));
  EXPECT_EQ(curve.min(1), 1);
  EXPECT_EQ(curve.max(1), INFINITY);
  EXPECT_EQ(buckets.Draw({}, 1).steps_size(), 2) << "the sign keeps two apart";
}

TEST(CurveBuckets, ARangeHasTheBucketsThatItTouches) {
  CurveBuckets buckets(16);
  for (int64_t step = 0; step < 64; ++step) buckets.Add(PointAt(step, static_cast<double>(step)));
  EXPECT_EQ(StepsOf(buckets.Draw({.from = 9, .to = 17}, 16)), (Steps{11, 15, 19}));
  EXPECT_TRUE(buckets.Suffices({}, 16));
  EXPECT_FALSE(buckets.Suffices({.from = 9, .to = 17}, 16)) << "nine points would have fit";
  EXPECT_TRUE(buckets.Draw({.from = 2, .to = 1}, 16).steps().empty());
}

class Curves : public StoreContract {
 protected:
  void Log(v1::MetricBatch batch) {
    Send(std::move(batch));
    sender_->WaitForCount(sent_);
  }
  void Send(v1::MetricBatch batch) {
    store_->Append(std::move(batch), sender_);
    ++sent_;
  }
  void LogPoint(uint32_t attempt, uint32_t rank, int64_t step, double value,
                const std::string& name = "loss") {
    v1::MetricBatch batch = Batch(static_cast<uint64_t>(sent_) + 1, step, value);
    batch.set_attempt(attempt);
    batch.set_rank(rank);
    batch.mutable_points(0)->set_name(name);
    Log(std::move(batch));
  }
  static void ReadAllOf(JobCurves& curves) {
    while (*curves.ReadOn()) {
    }
  }
  static CurveChoice Whole() {
    CurveChoice choice;
    choice.buckets = 100;
    return choice;
  }
  static v1::Curve Drawn(const JobCurves& curves, const std::string& name = "loss") {
    return curves.curves().at(name).buckets.Draw({}, 100);
  }
  MetricStore& store() { return *store_; }

 private:
  std::unique_ptr<MetricStore> store_ = engine().OpenMetricStore();
  const std::shared_ptr<MetricSender> sender_ = std::make_shared<MetricSender>();
  int sent_ = 0;
};

TEST_P(Curves, ReadsOnWhereItStopped) {
  LogPoint(0, 0, 1, 10);
  JobCurves curves(store(), 1, Whole());
  ReadAllOf(curves);
  EXPECT_EQ(LastOf(Drawn(curves)), Values{10});
  LogPoint(0, 0, 2, 20);
  ReadAllOf(curves);
  EXPECT_EQ(LastOf(Drawn(curves)), (Values{10, 20}));
}

TEST_P(Curves, ARestartReplacesWhatItDoesAgainAlsoUnderAnOpenBook) {
  for (const int64_t step : {1, 2, 3}) LogPoint(0, 0, step, static_cast<double>(step));
  JobCurves curves(store(), 1, Whole());
  ReadAllOf(curves);
  LogPoint(1, 0, 2, 200);
  ReadAllOf(curves);
  EXPECT_EQ(LastOf(Drawn(curves)), (Values{1, 200}));
  LogPoint(1, 0, 3, 300);
  LogPoint(2, 0, 3, 3'000);
  ReadAllOf(curves);
  EXPECT_EQ(LastOf(Drawn(curves)), (Values{1, 200, 3'000}));
  JobCurves fresh(store(), 1, Whole());
  ReadAllOf(fresh);
  EXPECT_EQ(Drawn(fresh).DebugString(), Drawn(curves).DebugString());
}

TEST_P(Curves, WhatArrivesLateReplacesToo) {
  for (const int64_t step : {1, 2, 3}) LogPoint(0, 0, step, static_cast<double>(step));
  LogPoint(1, 0, 3, 300);
  JobCurves curves(store(), 1, Whole());
  ReadAllOf(curves);
  EXPECT_EQ(LastOf(Drawn(curves)), (Values{1, 2, 300}));
  LogPoint(1, 1, 2, 0);
  ReadAllOf(curves);
  EXPECT_EQ(LastOf(Drawn(curves)), (Values{1, 300}));
  LogPoint(2, 0, 100, 0);
  ReadAllOf(curves);
  LogPoint(2, 0, 1, 10);
  ReadAllOf(curves);
  EXPECT_EQ(LastOf(Drawn(curves)), (Values{10, 0}));
  JobCurves fresh(store(), 1, Whole());
  ReadAllOf(fresh);
  EXPECT_EQ(Drawn(fresh).DebugString(), Drawn(curves).DebugString());
}

TEST_P(Curves, ManyCurvesShareTheRoomOfABook) {
  const auto batch_of = [](int64_t step) {
    v1::MetricBatch batch = Batch(static_cast<uint64_t>(step) + 1, 1, 1);
    batch.clear_points();
    for (int name = 0; name < 100; ++name) {
      *batch.add_points() = PointAt(step, name);
      batch.mutable_points()->rbegin()->set_name("m" + std::to_string(1'000 + name));
    }
    return batch;
  };
  for (int64_t step = 1; step < 1'500; ++step) Send(batch_of(step));
  Log(batch_of(1'500));
  CurveChoice choice;
  choice.buckets = CurveCache::kBuckets;
  JobCurves curves(store(), 1, choice);
  ReadAllOf(curves);
  EXPECT_EQ(curves.curves().size(), 100u);
  EXPECT_LE(curves.Size(), JobCurves::kBucketsMax);
  EXPECT_GE(curves.Size(), JobCurves::kBucketsMax / 2);
  EXPECT_EQ(curves.curves().at("m1099").buckets.Draw({}, 10'000).points(), 1'500u);
}

TEST_P(Curves, AreOfTheLowestRankThatLoggedThem) {
  LogPoint(0, 3, 1, 3, "late");
  LogPoint(0, 2, 1, 2);
  LogPoint(0, 0, 2, 0);
  LogPoint(0, 1, 3, 1);
  JobCurves curves(store(), 1, Whole());
  ReadAllOf(curves);
  EXPECT_EQ(curves.curves().at("loss").rank, 0u);
  EXPECT_EQ(StepsOf(Drawn(curves)), Steps{2});
  EXPECT_EQ(curves.curves().at("late").rank, 3u);
  CurveChoice of_rank_1 = Whole();
  of_rank_1.rank = 1;
  JobCurves other(store(), 1, of_rank_1);
  ReadAllOf(other);
  EXPECT_EQ(StepsOf(Drawn(other)), Steps{3});
}

TEST_P(Curves, KeepsTheFirstNamesOfTooMany) {
  v1::MetricBatch batch = Batch(1, 1, 1);
  batch.clear_points();
  for (int name = 999; name >= 700; --name) {
    *batch.add_points() = PointAt(1, name);
    batch.mutable_points()->rbegin()->set_name("m" + std::to_string(name));
  }
  Log(batch);
  JobCurves curves(store(), 1, Whole());
  ReadAllOf(curves);
  EXPECT_TRUE(curves.left_out());
  EXPECT_EQ(curves.curves().size(), JobCurves::kCurvesMax);
  EXPECT_EQ(curves.curves().begin()->first, "m700");
}

TEST_P(Curves, TheShelfKeepsTheBooksUsedLast) {
  CurveCache cache(store());
  const auto first = cache.Take(1);
  EXPECT_EQ(cache.Take(1), first);
  for (uint64_t job = 2; job <= CurveCache::kJobsMax; ++job) cache.Take(job);
  EXPECT_EQ(cache.Take(1), first);
  cache.Take(100);
  EXPECT_EQ(cache.Take(1), first) << "job 2 had to go";
  const auto large = cache.Take(100);
  cache.Grew(*large, CurveCache::kBucketsMax);
  cache.Grew(*first, 1);
  EXPECT_EQ(cache.Take(100), large) << "the one used last stays, whatever its size";
  EXPECT_NE(cache.Take(1), first);
}

INSTANTIATE_TEST_SUITE_P(Engines, Curves, testing::ValuesIn(EngineKinds()), NameOfKind);

}  // namespace
}  // namespace muster::coordinator
