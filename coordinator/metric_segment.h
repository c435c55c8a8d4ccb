// The bytes of a metric segment: records of (length, CRC-32C, MetricBatch). Pure but for the file
// read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

std::string EncodeMetricRecord(const v1::MetricBatch& batch);
// Hands over each whole record; `sound_bytes` is where the torn or damaged rest begins. A missing
// file holds nothing.
absl::Status ReadMetricSegment(const std::string& path,
                               const std::function<void(v1::MetricBatch)>& each,
                               uint64_t* sound_bytes);

}  // namespace muster::coordinator
