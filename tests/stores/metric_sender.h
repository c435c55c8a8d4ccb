// What tests of a metric store send to it, and how they read it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <vector>

#include "coordinator/stores/metric_store.h"
#include "tests/stores/resending_sender.h"

namespace muster::coordinator {

class MetricSender : public ResendingSender<MetricUploader> {
 public:
  void Acknowledge(const v1::MetricAck& ack) override {
    std::lock_guard lock(mutex_);
    ++count_;
    refusals_ += ack.refused() ? 1 : 0;
    last_ = ack;
    changed_.notify_all();
  }
  bool HasWithin(int count, std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return count_ >= count; });
  }
  int Refusals() {
    std::lock_guard lock(mutex_);
    return refusals_;
  }
  v1::MetricAck WaitForCount(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return count_ >= count; });
    return last_;
  }

 private:
  int count_ = 0;
  int refusals_ = 0;
  v1::MetricAck last_;
};

inline v1::MetricBatch Batch(uint64_t seq, int64_t step, double loss) {
  v1::MetricBatch batch;
  batch.set_job(1);
  batch.set_source("socket");
  batch.set_seq(seq);
  v1::MetricPoint* point = batch.add_points();
  point->set_name("train_loss");
  point->set_step(step);
  point->set_value(loss);
  return batch;
}

inline std::vector<v1::MetricBatch> ReadAll(const MetricStore& store) {
  std::vector<v1::MetricBatch> batches;
  const auto reader = store.Read(1);
  v1::MetricBatch batch;
  while (*reader->Next(batch)) batches.push_back(batch);
  return batches;
}

inline v1::JobSummary ListedAs(MetricStore& store) {
  v1::JobSummary summary;
  summary.set_id(1);
  store.DecorateFinished(summary);
  return summary;
}

}  // namespace muster::coordinator
