// What a row of `jobctl ls` shows of a job's metrics: the highest step, and the newest value of its
// loss. Shared by the implementations of MetricStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/lru_map.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// From the newest attempt that reports a loss: the loss that represents the run (common/loss_name.h), of
// the lowest rank that reports it.
struct NewestMetrics {
  int64_t step = -1;  // -1: no point is known
  std::string loss_name;
  double loss = 0;
  bool has_loss = false;
  uint32_t attempt = 0;  // of the loss
  uint32_t rank = 0;
  std::string
      chosen;  // JobSpec.metric, which represents the run; empty: its loss. Not among the numbers

  void Take(const v1::MetricBatch& batch);

  // For a number file. Empty: the name is too long for one.
  static constexpr size_t kNumbers = 38;
  std::vector<int64_t> Numbers() const;
  static std::optional<NewestMetrics> Of(const std::vector<int64_t>& numbers);

 private:
  bool MayStand(const std::string& name) const;
  bool IsOfTheLoss(const v1::MetricBatch& batch, const std::string& name) const;
};

// The newest metrics of many jobs. Any thread.
class NewestMetricsCache {
 public:
  static constexpr size_t kJobsMax = 20'000;

  void Take(const v1::MetricBatch& batch);
  // The metric that represents the job from now on; empty: its loss.
  void Choose(uint64_t job, const std::string& metric);
  // The state before any of its batches.
  NewestMetrics Nothing(uint64_t job) const;
  // Does not overwrite what is known already.
  void Keep(uint64_t job, const NewestMetrics& newest);
  void Replace(uint64_t job, const NewestMetrics& newest);
  void Forget(uint64_t job);
  std::optional<NewestMetrics> Find(uint64_t job) const;
  // A job without any keeps what its row carries, or shows step -1.
  void Decorate(v1::JobSummary& summary) const;

 private:
  // With `mutex_` held.
  NewestMetrics& Of(uint64_t job);
  void Set(uint64_t job, const NewestMetrics& newest);
  std::string ChoiceOf(uint64_t job) const;

  mutable std::mutex mutex_;  // guards what follows
  common::LruMap<uint64_t, NewestMetrics> of_job_{kJobsMax};
  common::LruMap<uint64_t, std::string> chosen_{kJobsMax};
};

}  // namespace muster::coordinator
