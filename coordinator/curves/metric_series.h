// One rank's metric condensed to a few numbers, however many points it has. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

class MetricSeries {
 public:
  static constexpr size_t kSparkValues = 24;
  // Values kept for the sparkline. Beyond that, each stands for twice as many steps.
  static constexpr size_t kKeptMax = 4 * kSparkValues;

  void Add(const v1::MetricPoint& point);
  v1::MetricSummary Summary() const;

 private:
  void Thin();

  v1::MetricSummary summary_;
  std::map<int64_t, double> kept_;  // by step >> shift_: the last value
  int shift_ = 0;
};

}  // namespace muster::coordinator
