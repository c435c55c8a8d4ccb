#include "coordinator/local/metric_stream_file.h"

#include <string>

#include "common/base/status.h"
#include "coordinator/store_parts/segment_metrics.h"

namespace muster::coordinator {
absl::StatusOr<MetricStreamFile> MetricStreamFile::Open(const Paths& paths, uint64_t job,
                                                        uint32_t attempt) {
  RETURN_IF_ERROR(common::MakeDirectories(paths.MetricDirectory(job)));
  const SegmentFiles files(paths.MetricStream(job, attempt));
  ASSIGN_OR_RETURN(
      SegmentWriter writer,
      SegmentWriter::Open(files, {.kind = SegmentKind::kMetrics, .job = job, .attempt = attempt}));
  MetricStreamFile file(std::move(writer));
  MetricStreamReader reader(std::make_shared<const SegmentFiles>(files));
  ASSIGN_OR_RETURN(file.had_batches_, ReadSources(reader, file.sources_));
  return file;
}

absl::Status MetricStreamFile::Append(const v1::MetricBatch& batch, std::string_view encoded) {
  return file_.Append({{.offset = file_.Written(), .time_us = TimeUsOf(batch), .body = encoded}});
}

}  // namespace muster::coordinator
