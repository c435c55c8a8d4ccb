// Whether a worker's upload can be valid, checked before any number in it is used. OK, or the error
// for its stream: only that stream, because all ranks of a node share the connection. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// limit: metrics: a metric's name; refused for that stream
inline constexpr size_t kMetricNameBytesMax = 1'024;
inline constexpr size_t kMetricSourceBytesMax = 4'096;
// limit: metrics: points of one batch; refused for that stream
inline constexpr int kMetricPointsMax = 100'000;  // per batch
// limit: metrics: sources of one rank; refused for that stream
inline constexpr size_t kMetricSourcesMax = 2'000;  // per rank
// limit: metrics: batches ahead of the newest one; refused for that stream
inline constexpr uint64_t kMetricSeqJumpMax = 1 << 20;  // batches ahead of the newest one

absl::Status CheckLogChunk(const v1::LogChunk& chunk);
absl::Status CheckMetricBatch(const v1::MetricBatch& batch);
// Fills in the fields of a batch that came encoded, and leaves `encoded` as it is. Leaves other batches unchanged.
absl::Status DecodeMetricBatch(v1::MetricBatch& batch);
// For a batch that is valid on its own: whether it can come next. `newest`: the stored seq of this
// source, 0 if none.
absl::Status CheckMetricSeq(const v1::MetricBatch& batch, uint64_t newest);

// The owner of an upload of a checkpoint file (store_parts/upload_area.h): the attempt's part on that node.
// Never the name of a project.
std::string UploadOwner(const Caller& caller, uint64_t job, uint32_t attempt);

}  // namespace muster::coordinator
