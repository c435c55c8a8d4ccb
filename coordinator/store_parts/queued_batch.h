// A batch of metrics on its way to a store's thread. Shared by the implementations of MetricStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/metric_sources.h"
#include "coordinator/stores/metric_store.h"

namespace muster::coordinator {

struct QueuedBatch {
  QueuedBatch(v1::MetricBatch given, std::shared_ptr<MetricUploader> sender)
      : batch(std::move(given)), bytes(batch.ByteSizeLong()), uploader(std::move(sender)) {
    encoded = std::move(*batch.mutable_encoded());
    batch.clear_encoded();
  }

  // On the store's thread. Older workers do not encode the batch.
  void EncodeIfNeeded() {
    if (encoded.empty()) encoded = batch.SerializeAsString();
  }
  void Refuse() const {
    uploader->Acknowledge(RefusalOf(batch));
    uploader->Consumed(bytes);
  }

  v1::MetricBatch batch;  // without `encoded`
  std::string encoded;    // as it is stored
  size_t bytes = 0;       // of both, for Consumed
  std::shared_ptr<MetricUploader> uploader;
};

inline common::Problem MetricsAreFull(uint64_t job) {
  return {.code = "JC1625",
          .what = common::StrCat("the metrics of job ", job, " have reached their quota"),
          .why = "newer points are not kept; their newest values are still shown",
          .fix = "report fewer values, or raise --job-metrics-quota"};
}

}  // namespace muster::coordinator
