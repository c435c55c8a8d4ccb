// SummarizeMetrics: a few numbers for each of a job's metrics, read in pieces so that other work is not
// delayed.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/limits.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/curves/followed_reader.h"
#include "coordinator/curves/metric_series.h"

namespace muster::coordinator {
namespace {

// The response is one message: the first ones by name and rank.
constexpr size_t kSeriesMax = 10'000;
constexpr size_t kSummaryBytesPerTurn = 1 << 20;

class SummaryTask : public std::enable_shared_from_this<SummaryTask> {
 public:
  SummaryTask(JobStores& stores, Process& process, uint64_t job, std::string owner,
              Answer<v1::MetricSummaries> answer)
      : stores_(stores),
        process_(process),
        job_(job),
        owner_(std::move(owner)),
        answer_(std::move(answer)),
        reader_(stores.metrics, job) {}

  void Go(std::chrono::milliseconds after = std::chrono::milliseconds(0)) {
    process_.reads.PostAfter(
        after, [self = shared_from_this()] { self->Turn(); }, owner_);
  }

 private:
  void Turn() {
    v1::MetricBatch batch;
    for (size_t bytes = 0; bytes < kSummaryBytesPerTurn; bytes += batch.ByteSizeLong()) {
      const absl::StatusOr<FollowedReader::Read> read = reader_.Next(batch);
      if (absl::IsUnavailable(read.status())) return Go(kShortageRetry);
      if (!read.ok()) return answer_(read.status());
      if (*read == FollowedReader::Read::kEnd) return answer_(Summaries());
      if (*read == FollowedReader::Read::kPoints) Add(batch);
    }
    Go();
  }

  void Add(const v1::MetricBatch& batch) {
    uint64_t& lost = dropped_[{batch.attempt(), batch.rank()}];
    lost = std::max(lost, batch.dropped());
    for (const v1::MetricPoint& point : batch.points()) {
      if (reader_.IsReplaced(batch, point)) continue;
      series_[{point.name(), batch.rank()}].Add(point);
      if (series_.size() > kSeriesMax) series_.erase(std::prev(series_.end()));
    }
  }

  v1::MetricSummaries Summaries() const {
    v1::MetricSummaries summaries;
    size_t bytes = 0;
    for (const auto& [key, series] : series_) {
      if (bytes > common::kAnswerBytesMax) break;
      v1::MetricSummary summary = series.Summary();
      summary.set_name(key.first);
      summary.set_rank(static_cast<int>(key.second));
      bytes += summary.ByteSizeLong();
      *summaries.add_summaries() = std::move(summary);
    }
    uint64_t lost = 0;
    for (const auto& [rank, count] : dropped_) {
      lost += std::min(count, std::numeric_limits<uint64_t>::max() - lost);
    }
    summaries.set_dropped(lost);
    summaries.set_damaged_bytes(reader_.DamagedBytes());
    summaries.set_over_quota(stores_.metrics.IsFull(job_));
    return summaries;
  }

  JobStores& stores_;
  Process& process_;
  const uint64_t job_;
  const std::string owner_;  // its work on the pool counts as this person's
  const Answer<v1::MetricSummaries> answer_;
  FollowedReader reader_;
  std::map<std::pair<std::string, uint32_t>, MetricSeries> series_;  // by name and rank
  // By attempt and rank: the batches of all sources carry the rank's total.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> dropped_;
};

}  // namespace

void SummarizeMetrics(Jobs& jobs, JobStores& stores, Process& process, const Caller& caller,
                      const v1::JobReference& request, Answer<v1::MetricSummaries> answer) {
  FindJob(
      jobs, process, caller, request.job(),
      [&stores, &process, owner = caller.principal,
       answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
        if (!found.ok()) return answer(found.status());
        std::make_shared<SummaryTask>(stores, process, found->record->id(), owner, answer)->Go();
      });
}
MUSTER_HANDLER(SummarizeMetrics)

}  // namespace muster::coordinator
