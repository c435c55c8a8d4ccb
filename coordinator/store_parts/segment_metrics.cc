#include "coordinator/store_parts/segment_metrics.h"

#include <string>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/segments/files.h"

namespace muster::coordinator {

absl::StatusOr<bool> MetricStreamReader::Next(v1::MetricBatch& batch) {
  while (true) {
    ASSIGN_OR_RETURN(const StreamRecord* record, records_.Peek());
    if (record == nullptr) return false;
    const uint64_t missing = record->damaged;
    const uint64_t length = record->length;
    const absl::StatusOr<std::string> body = records_.Body();
    if (!absl::IsDataLoss(body.status())) RETURN_IF_ERROR(body.status());
    const bool is_sound = body.ok() && length > 0 && batch.ParseFromString(*body);
    damaged_ += missing + (is_sound ? 0 : length);
    records_.Advance();
    if (is_sound) return true;
  }
}

absl::StatusOr<bool> ReadSources(MetricStreamReader& reader, MetricSources& sources) {
  v1::MetricBatch batch;
  for (bool is_first = true;; is_first = false) {
    ASSIGN_OR_RETURN(const bool found, reader.Next(batch));
    if (!found) return !is_first;
    if (reader.DamagedBytes() == 0) {
      sources.Take(batch);
    } else {
      sources.TakeBehindDamage(batch);
    }
  }
}

absl::StatusOr<NewestMetrics> ReadNewest(MetricReader& reader, NewestMetrics newest) {
  v1::MetricBatch batch;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader.Next(batch));
    if (!found) return newest;
    newest.Take(batch);
  }
}

absl::StatusOr<bool> SegmentMetricReader::Next(v1::MetricBatch& batch) {
  if (!at_.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> attempts, FindAttempts());
    for (const uint32_t attempt : attempts) {
      if (!streams_.contains(attempt)) streams_.try_emplace(attempt, SegmentsOf(attempt));
    }
    if (streams_.empty()) return false;
    at_ = streams_.begin()->first;
  }
  for (auto stream = streams_.find(*at_); stream != streams_.end(); ++stream) {
    at_ = stream->first;
    ASSIGN_OR_RETURN(const bool found, stream->second.Next(batch));
    if (found) return true;
  }
  at_.reset();
  return false;
}

uint64_t SegmentMetricReader::DamagedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [attempt, stream] : streams_) bytes += stream.DamagedBytes();
  return bytes;
}

void SegmentMetricReader::Forget() {
  for (auto& [attempt, stream] : streams_) stream.Forget();
}

absl::StatusOr<std::vector<uint32_t>> MetricAttemptsBelow(const Paths& paths, uint64_t job) {
  const absl::StatusOr<std::vector<std::string>> names =
      common::ListDirectory(paths.MetricDirectory(job));
  std::vector<uint32_t> attempts;
  if (absl::IsNotFound(names.status())) return attempts;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    uint32_t attempt = 0;
    if (absl::SimpleAtoi(common::ToAbsl(SegmentBase(name)), &attempt)) attempts.push_back(attempt);
  }
  return attempts;
}

int64_t TimeUsOf(const v1::MetricBatch& batch) {
  return batch.points().empty() ? 0 : batch.points(0).time_ms() * 1'000;
}

}  // namespace muster::coordinator
