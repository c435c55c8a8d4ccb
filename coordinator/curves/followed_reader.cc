#include "coordinator/curves/followed_reader.h"

#include "common/base/status.h"

namespace muster::coordinator {

absl::StatusOr<FollowedReader::Read> FollowedReader::Next(v1::MetricBatch& batch) {
  ASSIGN_OR_RETURN(const bool found, reader_->Next(batch));
  const bool is_known = line_known_ || reader_->Attempts() < 2;
  if (is_known) return found ? Read::kPoints : Read::kEnd;
  if (found) {
    line_.Learn(batch);
  } else {
    line_.Seal();
    line_known_ = true;
    reader_ = metrics_.Read(job_);
  }
  return Read::kLine;
}

}  // namespace muster::coordinator
