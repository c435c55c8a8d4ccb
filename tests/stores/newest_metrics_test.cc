// What a job's row shows of its metrics.
#include "coordinator/store_parts/newest_metrics.h"

#include <gtest/gtest.h>

namespace muster::coordinator {
namespace {

void Tell(NewestMetrics& newest, uint32_t attempt, uint32_t rank, const std::string& name,
          double value, int64_t step = 1) {
  v1::MetricBatch batch;
  batch.set_attempt(attempt);
  batch.set_rank(rank);
  v1::MetricPoint* point = batch.add_points();
  point->set_name(name);
  point->set_step(step);
  point->set_value(value);
  newest.Take(batch);
}

// The order in which a Hugging Face Trainer, a GAN, ranks and a restart report.
TEST(NewestMetricsTest, OneMetricOfOneRankIsTheLoss) {
  NewestMetrics newest;
  Tell(newest, 0, 1, "eval_loss", 9);
  EXPECT_EQ(newest.loss_name, "eval_loss");
  Tell(newest, 0, 1, "train/loss", 5);
  Tell(newest, 0, 1, "eval_loss", 9);
  Tell(newest, 0, 1, "train_loss", 8);
  EXPECT_EQ(newest.loss, 5) << newest.loss_name;
  Tell(newest, 0, 0, "train/loss", 4, 7);
  Tell(newest, 0, 1, "train/loss", 5);
  EXPECT_EQ(newest.loss, 4) << "of rank " << newest.rank;
  EXPECT_EQ(newest.step, 7);
  Tell(newest, 0, 3, "loss", 3);
  Tell(newest, 0, 0, "train/loss", 4);
  EXPECT_EQ(newest.loss, 3);
  Tell(newest, 1, 0, "loss_G", 2);
  Tell(newest, 0, 0, "loss", 1);
  EXPECT_EQ(newest.loss, 2) << "of attempt " << newest.attempt;
  Tell(newest, 1, 0, "loss_D", 6);
  Tell(newest, 1, 0, "loss_G", 2);
  EXPECT_EQ(newest.loss_name, "loss_D");
  Tell(newest, 1, 0, "lr", 0.1);
  EXPECT_EQ(newest.loss, 6);
}

TEST(NewestMetricsTest, TheMetricThatTheJobChoosesStandsForIt) {
  NewestMetrics newest;
  newest.chosen = "val/acc";
  Tell(newest, 0, 0, "loss", 9);
  EXPECT_FALSE(newest.has_loss);
  Tell(newest, 0, 1, "val/acc", 0.5);
  Tell(newest, 0, 0, "val/acc", 0.75);
  Tell(newest, 0, 1, "val/acc", 0.6);
  Tell(newest, 0, 0, "loss", 8);
  EXPECT_EQ(newest.loss, 0.75) << newest.loss_name;
  EXPECT_EQ(newest.loss_name, "val/acc");
}

TEST(NewestMetricsCacheTest, AChoiceHoldsForWhatIsReadBackToo) {
  NewestMetricsCache cache;
  cache.Choose(7, "val/acc");
  cache.Keep(7, NewestMetrics{});
  v1::MetricBatch batch;
  batch.set_job(7);
  for (const char* name : {"loss", "val/acc"}) {
    v1::MetricPoint& point = *batch.add_points();
    point.set_name(name);
    point.set_value(name == std::string("loss") ? 1 : 2);
  }
  cache.Take(batch);
  EXPECT_EQ(cache.Find(7)->loss, 2);
  EXPECT_EQ(cache.Nothing(7).chosen, "val/acc");
  cache.Forget(7);
  cache.Take(batch);
  EXPECT_EQ(cache.Find(7)->loss, 1);
}

TEST(NewestMetricsTest, NumbersAndBack) {
  NewestMetrics newest;
  Tell(newest, 2, 3, "validation/loss", -0.5, 1'000'000'007);
  const std::optional<NewestMetrics> read = NewestMetrics::Of(newest.Numbers());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->loss_name, "validation/loss");
  EXPECT_EQ(read->Numbers(), newest.Numbers());
  newest.loss_name = std::string(256, 'x');
  EXPECT_EQ(NewestMetrics::Of(newest.Numbers())->loss_name, newest.loss_name);
  std::vector<int64_t> numbers = newest.Numbers();
  for (const int64_t size : {-1L, 257L, INT64_MAX}) {
    numbers[5] = size;
    EXPECT_FALSE(NewestMetrics::Of(numbers)) << size;
  }
  EXPECT_FALSE(NewestMetrics::Of({1, 2, 3})) << "the file of 0.2.0";
  newest.loss_name += 'x';
  EXPECT_TRUE(newest.Numbers().empty());
}

}  // namespace
}  // namespace muster::coordinator
