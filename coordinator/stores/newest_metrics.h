// What a row of `jobctl ls` shows of a job's metrics: the highest step and the newest loss. Shared
// by the implementations of MetricStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

struct NewestMetrics {
  int64_t step = -1;  // -1: no point is known
  double loss = 0;
  bool has_loss = false;

  void Take(const v1::MetricBatch& batch);
};

// Those of many jobs. Any thread.
class NewestMetricsCache {
 public:
  static constexpr size_t kJobsMax = 20'000;

  void Take(const v1::MetricBatch& batch);
  // What is known already stays.
  void Keep(uint64_t job, const NewestMetrics& newest);
  void Replace(uint64_t job, const NewestMetrics& newest);
  void Forget(uint64_t job);
  std::optional<NewestMetrics> Find(uint64_t job) const;
  // A row without any shows what it carries, or step -1.
  void Decorate(v1::JobSummary& summary) const;

 private:
  void KeepFew();

  mutable std::mutex mutex_;  // guards what follows
  std::map<uint64_t, NewestMetrics> of_job_;
};

}  // namespace muster::coordinator
