// What a row of `jobctl ls` shows of a job's metrics: the highest step and the newest loss. Shared
// by the implementations of MetricStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// Whether a metric of this name is a loss. The names are people's: "loss", "train_loss",
// "Loss/train" (PyTorch's tutorials), "eval/loss", "train_loss_epoch" (Lightning) are; "loss_scale"
// and "glossary" are not.
bool IsLossName(std::string_view name);

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
