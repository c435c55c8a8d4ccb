// Whether what a worker uploads can be right, before any number of it is used. OK, or the sentence
// that its stream is refused with: that stream alone, for the connection is shared by all ranks of
// a node. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

inline constexpr size_t kMetricNameBytesMax = 1'024;
inline constexpr size_t kMetricSourceBytesMax = 4'096;
inline constexpr int kMetricPointsMax = 100'000;        // of one batch
inline constexpr size_t kMetricSourcesMax = 2'000;      // of one rank
inline constexpr uint64_t kMetricSeqJumpMax = 1 << 20;  // batches ahead of the newest one

absl::Status CheckLogChunk(const v1::LogChunk& chunk);
absl::Status CheckMetricBatch(const v1::MetricBatch& batch);
// Of a batch that is right by itself, whether it can follow. `newest`: the seq that is stored of
// this source, 0 without any.
absl::Status CheckMetricSeq(const v1::MetricBatch& batch, uint64_t newest);

}  // namespace muster::coordinator
