// What the assessor remembers between two looks, and what it adds to the rows of `jobctl ls`.
#include "coordinator/periodic/assessor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace muster::coordinator {
namespace {

// Hands over what was added, once per reader.
class FakeMetrics final : public MetricStore {
 public:
  std::vector<v1::MetricBatch> batches;
  mutable int readers = 0;
  mutable int handed_over = 0;

  std::unique_ptr<MetricReader> Read(uint64_t) const override {
    ++readers;
    return std::make_unique<Reader>(*this);
  }
  void Stop() override {}
  void Append(v1::MetricBatch, std::shared_ptr<MetricUploader>) override {}
  WatchToken Watch(uint64_t, Watcher) override { return {}; }
  void Decorate(v1::JobSummary&) override {}
  void DecorateFinished(v1::JobSummary&) override {}
  void Choose(uint64_t, const std::string&) override {}
  bool IsFull(uint64_t) override { return false; }
  void Warm(uint64_t) override {}
  void Remove(uint64_t) override {}
  std::vector<uint64_t> Jobs() const override { return {}; }

 private:
  class Reader final : public MetricReader {
   public:
    explicit Reader(const FakeMetrics& store) : store_(store) {}
    absl::StatusOr<bool> Next(v1::MetricBatch& batch) override {
      if (at_ == store_.batches.size()) return false;
      batch = store_.batches[at_++];
      ++store_.handed_over;
      return true;
    }
    size_t Attempts() const override { return 1; }
    uint64_t DamagedBytes() const override { return 0; }
    void Forget() override {}

   private:
    const FakeMetrics& store_;
    size_t at_ = 0;
  };
};

// The minute so far is stored; later samples go to the watchers.
class FakeSamples final : public SampleStore {
 public:
  std::vector<v1::SampleBatch> stored;
  std::vector<v1::SampleBatch> earlier;  // the highest values, minute by minute

  void Append(v1::SampleBatch batch) override { watchers_.Notify(batch.job(), batch); }
  std::vector<NewestSample> Newest(uint64_t) const override {
    if (stored.empty()) return {};
    return {{std::make_shared<v1::SampleBatch>(stored.back()), 0}};
  }
  WatchToken Watch(uint64_t job, Watcher watcher) override {
    return watchers_.Watch(job, std::move(watcher));
  }
  std::unique_ptr<SampleReader> Read(const SampleQuery& query) const override {
    return std::make_unique<Reader>(query.tier == v1::SAMPLE_TIER_SECOND ? stored : earlier, query);
  }
  void Stop() override {}
  void Remove(uint64_t) override {}
  void Expire() override {}

 private:
  class Reader final : public SampleReader {
   public:
    Reader(std::vector<v1::SampleBatch> stored, const SampleQuery& query)
        : stored_(std::move(stored)), since_ms_(query.since_ms) {}
    absl::StatusOr<bool> Next(v1::SampleBucket& bucket) override {
      while (at_ < stored_.size() && stored_[at_].time_ms() < since_ms_) ++at_;
      if (at_ == stored_.size()) return false;
      *bucket.mutable_last() = stored_[at_];
      *bucket.mutable_max() = stored_[at_++];
      bucket.set_batches(60);
      return true;
    }

   private:
    const std::vector<v1::SampleBatch> stored_;
    const int64_t since_ms_;
    size_t at_ = 0;
  };
  JobWatchers<const v1::SampleBatch&> watchers_;
};

class AssessorTest : public ::testing::Test {
 protected:
  static constexpr int64_t kStartMs = 1'700'000'000'000;

  AssessorTest() {
    job_.set_id(4);
    job_.set_name("calm-otter-4");
    job_.set_state(v1::JOB_STATE_RUNNING);
    job_.set_submitted_ms(kStartMs);
    v1::Attempt& attempt = *job_.add_attempts();
    attempt.set_world_size(1);
    attempt.set_resume_step(-1);
    attempt.set_started_ms(kStartMs);
    attempt.set_running_ms(kStartMs);
    v1::NodePart& part = *attempt.add_parts();
    part.set_node("node1");
    part.set_local_world_size(1);
    part.set_device_kind("cpu");
    part.add_device_indexes(0);
    part.add_device_indexes(1);
  }
  void Lose(int64_t step) {
    v1::MetricBatch batch;
    batch.set_job(4);
    v1::MetricPoint& point = *batch.add_points();
    point.set_name("loss");
    point.set_step(step);
    point.set_value(NAN);
    point.set_time_ms(kStartMs + step * 1'000);
    metrics_.batches.push_back(batch);
  }
  common::Now At(int64_t seconds) const {
    return {.mono_ms = seconds * 1'000, .wall_ms = kStartMs + seconds * 1'000};
  }
  v1::JobSummary Row(v1::JobState state) const {
    v1::JobSummary row;
    row.set_id(4);
    row.set_state(state);
    assessor_.Decorate(row);
    return row;
  }

  FakeMetrics metrics_;
  FakeSamples samples_;
  Assessor assessor_{metrics_, samples_, 60'000};
  v1::JobRecord job_;
};

TEST_F(AssessorTest, ReadsOnlyWhatIsNew) {
  for (int step = 1; step <= 3; ++step) Lose(step);
  ASSERT_EQ(assessor_.Assess(job_, At(4))->findings_size(), 1);
  Lose(4);
  const auto assessment = assessor_.Assess(job_, At(5));
  EXPECT_EQ(assessment->findings(0).sentence(),
            "loss has been NaN since step 1, 4 values in a row");
  EXPECT_EQ(metrics_.readers, 1);
  EXPECT_EQ(metrics_.handed_over, 4);
}

TEST_F(AssessorTest, ARowShowsARunningJobsFindingAndAFinishedOnesOnlyOnceItWasJudged) {
  for (int step = 1; step <= 3; ++step) Lose(step);
  EXPECT_FALSE(Row(v1::JOB_STATE_RUNNING).has_finding());
  ASSERT_TRUE(assessor_.Assess(job_, At(4)).ok());
  EXPECT_EQ(Row(v1::JOB_STATE_RUNNING).finding().code(), "loss-not-finite");
  EXPECT_GT(Row(v1::JOB_STATE_RUNNING).wasted_device_us(), 0);
  EXPECT_FALSE(Row(v1::JOB_STATE_RESTARTING).has_finding());
  EXPECT_FALSE(Row(v1::JOB_STATE_FAILED).has_finding()) << "it may have recovered";
  EXPECT_FALSE(assessor_.IsFinal(4));
  job_.set_state(v1::JOB_STATE_FAILED);
  job_.set_finished_ms(kStartMs + 9'000);
  ASSERT_TRUE(assessor_.Assess(job_, At(9)).ok());
  EXPECT_TRUE(assessor_.IsFinal(4));
  EXPECT_EQ(Row(v1::JOB_STATE_FAILED).finding().code(), "loss-not-finite");
  assessor_.Forget(4);
  EXPECT_FALSE(Row(v1::JOB_STATE_FAILED).has_finding());
}

TEST_F(AssessorTest, TakesTheMinuteBeforeItsFirstLookAndWhatComesLater) {
  const auto measured = [](int second, float cores) {
    v1::SampleBatch batch;
    batch.set_job(4);
    batch.set_node("node1");
    batch.set_time_ms(kStartMs + second * 1'000);
    batch.add_ranks()->set_cpu_cores(cores);
    batch.mutable_ranks(0)->set_processes(1);
    return batch;
  };
  for (int second = 10; second <= 50; ++second) {
    samples_.stored.push_back(measured(second, 1.0F));
  }
  EXPECT_TRUE(assessor_.IsMeasured(4));
  auto assessment = assessor_.Assess(job_, At(50));
  ASSERT_EQ(assessment->findings_size(), 1);
  EXPECT_EQ(assessment->findings(0).sentence(), "1 of 2 devices is busy");
  for (int second = 51; second <= 90; ++second) samples_.Append(measured(second, 1.9F));
  assessment = assessor_.Assess(job_, At(90));
  EXPECT_EQ(assessment->findings_size(), 0) << "both are used now";
}

TEST_F(AssessorTest, KnowsAfterARestartWhichRanksHadWorkedBefore) {
  job_.mutable_attempts(0)->set_world_size(2);
  job_.mutable_attempts(0)->mutable_parts(0)->set_local_world_size(2);
  const auto measured = [](int second, float cores) {
    v1::SampleBatch batch;
    batch.set_job(4);
    batch.set_node("node1");
    batch.set_time_ms(kStartMs + second * 1'000);
    batch.add_ranks()->set_cpu_cores(1.0F);
    batch.add_ranks()->set_cpu_cores(cores);
    batch.mutable_ranks(1)->set_rank(1);
    return batch;
  };
  for (int second = 541; second <= 600; ++second) samples_.stored.push_back(measured(second, 0));
  Assessor without(metrics_, samples_, 60'000);
  EXPECT_EQ(without.Assess(job_, At(600))->findings_size(), 1) << "rank 1 never worked";
  for (int second = 60; second <= 480; second += 60) {
    samples_.earlier.push_back(measured(second, 1.0F));
  }
  EXPECT_EQ(assessor_.Assess(job_, At(600))->findings_size(), 0) << "it waits for rank 0 now";
}

TEST_F(AssessorTest, TheFactsOfARecordLeaveOutWhatCanBeLarge) {
  (*job_.mutable_spec()->mutable_env())["PATH"] = "/bin";
  job_.mutable_spec()->add_command("train");
  job_.mutable_attempts(0)->mutable_parts(0)->add_exits()->set_last_lines("much");
  const v1::JobRecord facts = FactsOf(job_);
  EXPECT_TRUE(facts.spec().env().empty());
  EXPECT_EQ(facts.spec().command_size(), 1);
  EXPECT_TRUE(facts.attempts(0).parts(0).exits().empty());
  EXPECT_EQ(facts.attempts(0).parts(0).device_indexes_size(), 2);
}

}  // namespace
}  // namespace muster::coordinator
