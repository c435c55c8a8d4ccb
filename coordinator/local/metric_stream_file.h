// One attempt's metrics on disk, for appending: a stream of segments, one record per batch. The
// metric store's thread only.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/segments/writer.h"
#include "coordinator/store_parts/metric_sources.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class MetricStreamFile {
 public:
  // Creates the file, or opens and recovers the existing one and finds each source's position.
  static absl::StatusOr<MetricStreamFile> Open(const Paths& paths, uint64_t job, uint32_t attempt);

  MetricSources& Sources() { return sources_; }
  // RESOURCE_EXHAUSTED, UNAVAILABLE: nothing was appended; the same call may be repeated.
  // OUT_OF_RANGE: no file can be that long here.
  absl::Status Append(const v1::MetricBatch& batch, std::string_view encoded);
  bool HadBatches() const { return had_batches_; }  // when it was opened
  SegmentWriter& File() { return file_; }

 private:
  explicit MetricStreamFile(SegmentWriter file) : file_(std::move(file)) {}

  SegmentWriter file_;
  MetricSources sources_;
  bool had_batches_ = false;
};

}  // namespace muster::coordinator
