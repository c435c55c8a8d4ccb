#include "coordinator/packs/output_move.h"

#include <algorithm>
#include <map>
#include <optional>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/packs/log_store.h"
#include "coordinator/packs/metric_store.h"
#include "coordinator/packs/moved_files.h"
#include "coordinator/store_parts/segment_metrics.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

const v1::NodePart* PartOf(const v1::JobRecord& job, uint32_t number, uint32_t rank) {
  for (const v1::Attempt& attempt : job.attempts()) {
    if (attempt.number() != number) continue;
    for (const v1::NodePart& part : attempt.parts()) {
      if (rank >= part.first_rank() && rank - part.first_rank() < part.local_world_size())
        return &part;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<uint64_t> OutputMove::Jobs() const {
  std::vector<uint64_t> jobs = JobsBelow(paths_.LogRoot());
  const std::vector<uint64_t> with_metrics = JobsBelow(paths_.MetricRoot());
  jobs.insert(jobs.end(), with_metrics.begin(), with_metrics.end());
  std::sort(jobs.begin(), jobs.end());
  jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
  return jobs;
}

absl::Status OutputMove::Move(const v1::JobRecord& job) {
  const absl::Status logs = MoveLogs(job);
  if (!logs.ok() && !absl::IsFailedPrecondition(logs)) return logs;
  const absl::Status metrics = MoveMetrics(job.id());
  return logs.ok() ? metrics : logs;
}

absl::Status OutputMove::MoveLogs(const v1::JobRecord& job) {
  ASSIGN_OR_RETURN(const std::vector<LogKey> keys, before_->Streams(job.id(), std::nullopt));
  std::map<PackLane, LaneFiles> lanes;
  for (const LogKey& key : keys) {
    const v1::NodePart* part = PartOf(job, key.attempt, key.rank);
    if (part == nullptr)
      return absl::FailedPreconditionError(
          StrCat("rank ", key.rank, " of attempt ", key.attempt, " is not in the job's record"));
    const PackLane lane = LogLane(key.job, key.attempt, part->node());
    lanes[lane].lane = lane;
    lanes[lane].streams.emplace(StreamOf(key), SegmentFiles(paths_.LogStream(key)));
  }
  MovedFiles moved(*packs_, stop_);
  for (const auto& [lane, files] : lanes) RETURN_IF_ERROR(moved.Move(files));
  return common::RemoveTree(paths_.LogDirectory(job.id()));
}

absl::Status OutputMove::MoveMetrics(uint64_t job) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> attempts, MetricAttemptsBelow(paths_, job));
  MovedFiles moved(*packs_, stop_);
  for (const uint32_t attempt : attempts) {
    LaneFiles files{.lane = MetricLane(job, attempt), .streams = {}, .note = note_of_(job)};
    files.streams.emplace(PackStream{0, 0}, SegmentFiles(paths_.MetricStream(job, attempt)));
    RETURN_IF_ERROR(moved.Move(files));
  }
  return common::RemoveTree(paths_.MetricDirectory(job));
}

}  // namespace muster::coordinator
