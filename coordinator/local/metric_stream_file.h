// One attempt's metrics on disk, for appending: a stream of segments, a record per batch. The
// metric store's thread only.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/paths.h"
#include "coordinator/segments/writer.h"
#include "coordinator/stores/metric_sources.h"

namespace muster::coordinator {

class MetricStreamFile {
 public:
  // Makes the file, or opens it, recovers what is there and finds where each source stands.
  static absl::StatusOr<MetricStreamFile> Open(const Paths& paths, uint64_t job, uint32_t attempt);

  MetricSources& Sources() { return sources_; }
  // RESOURCE_EXHAUSTED, UNAVAILABLE: nothing was taken, the same call may be repeated.
  // OUT_OF_RANGE: no file here can be that long.
  absl::Status Append(const v1::MetricBatch& batch);
  bool HadBatches() const { return had_batches_; }  // when it was opened
  SegmentWriter& File() { return file_; }

 private:
  explicit MetricStreamFile(SegmentWriter file) : file_(std::move(file)) {}

  SegmentWriter file_;
  MetricSources sources_;
  bool had_batches_ = false;
};

}  // namespace muster::coordinator
