#include "coordinator/local/metric_reader.h"

#include "coordinator/segments/files.h"

namespace muster::coordinator {

std::shared_ptr<const StreamSegments> LocalMetricReader::SegmentsOf(uint32_t attempt) const {
  return std::make_shared<const SegmentFiles>(paths_.MetricStream(job_, attempt));
}

}  // namespace muster::coordinator
