#include "coordinator/local/log_quota.h"

#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/segments/trim.h"

namespace muster::coordinator {
namespace {

// The share of the quota by which a trim goes below it, and that all last segments of a job
// together may take.
constexpr uint64_t kShare = 16;
// Replacing a smaller segment by a record is not worthwhile.
constexpr uint64_t kWorthBytes = 4 << 10;

struct Candidate {
  FinishedSegment segment;
  size_t stream = 0;
};

uint64_t BytesOf(const Paths& paths, uint64_t job) {
  return BytesBelow(paths.Root(), paths.BelowRoot(paths.LogDirectory(job)));
}

}  // namespace

void LogQuota::KeepAtMost(uint64_t job, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  jobs_[job].keep = bytes;
}

void LogQuota::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

void LogQuota::Opened(uint64_t job) {
  std::lock_guard lock(mutex_);
  ++jobs_[job].streams;
}

uint64_t LogQuota::Of(const OfJob& job) const {
  if (of_any_ == 0 || job.keep == 0) return std::max(of_any_, job.keep);
  return std::min(of_any_, job.keep);
}

uint64_t LogQuota::SegmentBytes(uint64_t job) const {
  std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job);
  const uint64_t quota = found == jobs_.end() ? of_any_ : Of(found->second);
  if (quota == 0) return kSegmentBytesMax;
  const uint64_t streams = found == jobs_.end() ? 1 : std::max<uint64_t>(found->second.streams, 1);
  return std::clamp(quota / kShare / streams, kSegmentBytesMin, kSegmentBytesMax);
}

absl::StatusOr<uint64_t> LogQuota::Wrote(uint64_t job, uint64_t bytes) {
  uint64_t quota = 0;
  {
    std::lock_guard lock(mutex_);
    OfJob& of_job = jobs_[job];
    quota = Of(of_job);
    if (quota == 0) return 0;
    of_job.total += bytes;
    if (of_job.counted && of_job.total <= std::max(of_job.due, quota)) return 0;
  }
  const uint64_t before = BytesOf(paths_, job);
  uint64_t left = before;
  if (before > quota) {
    ASSIGN_OR_RETURN(left, Trim(job, before, quota - quota / kShare));
  }
  std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return 0;  // removed meanwhile
  found->second.counted = true;
  found->second.total = left;
  found->second.due = left + quota / kShare;
  return before - left;
}

absl::StatusOr<uint64_t> LogQuota::Trim(uint64_t job, uint64_t bytes, uint64_t most) const {
  ASSIGN_OR_RETURN(const std::vector<LogKey> streams, LocalLogReader(paths_).Streams(job, {}));
  std::vector<Candidate> oldest;
  for (size_t stream = 0; stream < streams.size(); ++stream) {
    ASSIGN_OR_RETURN(const std::vector<FinishedSegment> finished,
                     FinishedSegments(SegmentFiles(paths_.LogStream(streams[stream]))));
    for (const FinishedSegment& segment : finished) {
      // The end of the newest attempt stays, whatever its size, because it shows why the job ended.
      if (segment.has_end && streams[stream].attempt == streams.back().attempt) continue;
      oldest.push_back({segment, stream});
    }
  }
  std::stable_sort(oldest.begin(), oldest.end(), [](const Candidate& a, const Candidate& b) {
    return a.segment.last_us < b.segment.last_us;
  });
  std::map<size_t, FinishedSegment> until;  // by stream
  for (const Candidate& candidate : oldest) {
    if (bytes <= most) break;
    if (candidate.segment.bytes < kWorthBytes) continue;
    until[candidate.stream] = candidate.segment;
    bytes -= std::min(bytes, candidate.segment.bytes);
  }
  for (const auto& [stream, segment] : until) {
    RETURN_IF_ERROR(RemoveUntil(SegmentFiles(paths_.LogStream(streams[stream])),
                                SegmentIdOf(streams[stream]), segment));
  }
  return BytesOf(paths_, job);
}

}  // namespace muster::coordinator
