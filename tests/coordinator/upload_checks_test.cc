// Every number that a worker sends is checked before it is used; valid ones pass.
#include "coordinator/store_parts/upload_checks.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/curves/followed_line.h"
#include "coordinator/curves/metric_series.h"

namespace muster::coordinator {
namespace {

v1::LogChunk GoodChunk() {
  v1::LogChunk chunk;
  chunk.set_job(1);
  chunk.set_stream(v1::LOG_STREAM_STDERR);
  chunk.set_offset(100);
  chunk.set_dropped(100);
  chunk.set_data("abc");
  for (uint32_t position = 0; position < 3; ++position) {
    v1::LogMark* mark = chunk.add_marks();
    mark->set_position(position);
    // A clock may go backwards between two pieces.
    mark->set_time_us(1'000'000 - position);
  }
  return chunk;
}

v1::MetricBatch GoodBatch() {
  v1::MetricBatch batch;
  batch.set_source("socket");
  batch.set_seq(6);
  batch.add_points()->set_name("loss");
  return batch;
}

TEST(UploadChecks, WhatCannotBeInALogChunkIsRefused) {
  EXPECT_TRUE(CheckLogChunk(GoodChunk()).ok());
  const std::vector<std::function<void(v1::LogChunk&)>> wrongs = {
      [](auto& chunk) { chunk.set_rank(common::kRanksMax); },
      [](auto& chunk) { chunk.set_stream(v1::LOG_STREAM_UNSPECIFIED); },
      [](auto& chunk) { chunk.set_stream(static_cast<v1::LogStream>(7)); },
      [](auto& chunk) { chunk.set_data(std::string(common::kLogChunkBytesMax + 1, 'x')); },
      [](auto& chunk) { chunk.set_offset(uint64_t{1} << 63); },
      [](auto& chunk) { chunk.set_offset(UINT64_MAX); },
      [](auto& chunk) { chunk.set_offset(common::kLogStreamBytesMax - 2); },
      [](auto& chunk) { chunk.set_dropped(101); },
      [](auto& chunk) { chunk.set_dropped(UINT64_MAX); },
      [](auto& chunk) { chunk.set_time_us(INT64_MIN); },
      [](auto& chunk) { chunk.mutable_marks(1)->set_position(4); },
      [](auto& chunk) { chunk.mutable_marks(2)->set_position(1); },
      [](auto& chunk) { chunk.mutable_marks(0)->set_time_us(-1); },
  };
  for (size_t i = 0; i < wrongs.size(); ++i) {
    v1::LogChunk chunk = GoodChunk();
    wrongs[i](chunk);
    EXPECT_NE(CheckLogChunk(chunk).message().find("[JC1611]"), std::string::npos) << i;
  }
}

TEST(UploadChecks, WhatCannotBeInAMetricBatchIsRefused) {
  EXPECT_TRUE(CheckMetricBatch(GoodBatch()).ok());
  const std::vector<std::function<void(v1::MetricBatch&)>> wrongs = {
      [](auto& batch) { batch.set_rank(common::kRanksMax); },
      [](auto& batch) { batch.set_source(""); },
      [](auto& batch) { batch.set_source(std::string(kMetricSourceBytesMax + 1, 'x')); },
      [](auto& batch) { batch.set_seq(0); },
      [](auto& batch) { batch.set_seq(uint64_t{1} << 62); },
      [](auto& batch) { batch.mutable_points(0)->set_name(""); },
      [](auto& batch) { batch.mutable_points(0)->set_name(std::string(2'000, 'x')); },
      [](auto& batch) {
        for (int i = 0; i < kMetricPointsMax; ++i) batch.add_points()->set_name("x");
      },
  };
  for (size_t i = 0; i < wrongs.size(); ++i) {
    v1::MetricBatch batch = GoodBatch();
    wrongs[i](batch);
    EXPECT_NE(CheckMetricBatch(batch).message().find("[JC1611]"), std::string::npos) << i;
  }
}

TEST(UploadChecks, AMetricBatchFarAheadOfTheNewestIsRefused) {
  EXPECT_TRUE(CheckMetricSeq(GoodBatch(), 5).ok());
  EXPECT_TRUE(CheckMetricSeq(GoodBatch(), 9).ok());  // a repeat
  v1::MetricBatch ahead = GoodBatch();
  ahead.set_seq(kMetricSeqJumpMax + 5);
  EXPECT_TRUE(CheckMetricSeq(ahead, 5).ok());
  ahead.set_seq(kMetricSeqJumpMax + 6);
  EXPECT_NE(CheckMetricSeq(ahead, 5).message().find("[JC1611]"), std::string::npos);
  v1::MetricBatch file = GoodBatch();
  file.set_source("events.out.tfevents.1");
  file.set_seq(uint64_t{1} << 40);  // an offset may be anywhere in a file
  EXPECT_TRUE(CheckMetricSeq(file, 5).ok());
}

TEST(DescriptorShares, LeaveSomeForTheRestAtEveryLimit) {
  for (const uint64_t limit : {64u, 256u, 1'024u, 65'536u}) {
    const DescriptorShares shares = ShareDescriptors(limit);
    EXPECT_GE(shares.connections, 8u);
    EXPECT_GE(shares.log_streams, 2u);
    const size_t all = shares.connections + 2 * shares.log_streams + shares.metric_segments;
    EXPECT_LT(all, limit - 32) << limit;
  }
}

v1::MetricBatch Steps(uint32_t attempt, int64_t from, int64_t to) {
  v1::MetricBatch batch;
  batch.set_attempt(attempt);
  for (int64_t step = from; step < to; ++step) batch.add_points()->set_step(step);
  return batch;
}

TEST(FollowedLine, ALaterAttemptReplacesFromItsFirstStepOn) {
  FollowedLine line;
  line.Learn(Steps(0, 0, 100));
  line.Learn(Steps(2, 50, 60));
  line.Learn(Steps(1, 70, 90));
  line.Seal();
  EXPECT_FALSE(line.IsReplaced(0, 49));
  EXPECT_TRUE(line.IsReplaced(0, 50));
  EXPECT_TRUE(line.IsReplaced(1, 70));
  EXPECT_FALSE(line.IsReplaced(2, 90));
}

TEST(MetricSeries, AMillionPointsAreAFewValues) {
  MetricSeries series;
  v1::MetricPoint point;
  for (int64_t step = -1'000; step < 1'000'000; ++step) {
    point.set_step(step);
    point.set_value(static_cast<double>(step));
    series.Add(point);
  }
  const v1::MetricSummary summary = series.Summary();
  EXPECT_EQ(summary.count(), 1'001'000u);
  EXPECT_EQ(summary.min(), -1'000);
  EXPECT_EQ(summary.last(), 999'999);
  ASSERT_EQ(summary.spark_size(), static_cast<int>(MetricSeries::kSparkValues));
  EXPECT_EQ(summary.spark(summary.spark_size() - 1), 999'999);
  for (int i = 1; i < summary.spark_size(); ++i) {
    EXPECT_NEAR(summary.spark(i) - summary.spark(i - 1), 43'500, 22'000) << i;
  }
}

}  // namespace
}  // namespace muster::coordinator
