#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/state.h"
#include "coordinator/curves/followed_reader.h"

namespace muster::coordinator {
namespace {

constexpr int kFollowedLine = -1;  // QueryMetricsRequest.attempt
constexpr int kAllRanks = -1;
// limit: metrics: what a slow follower has not read; it is told to reconnect
constexpr size_t kMetricsWaitingBytesMax = 64 << 20;  // not yet read by a slow follower
constexpr size_t kBytesPerTurn = 1 << 20;

// After a job's end, how long a follower waits for points still in transit. A lost node's never
// arrive.
constexpr std::chrono::seconds kMetricRestWithin{1};

using MetricSink = Sink<v1::MetricBatch>;

// One reader: stored points, in pieces and as fast as the client reads them; then new ones, until
// the job is over.
class MetricFeed : public std::enable_shared_from_this<MetricFeed> {
 public:
  MetricFeed(Jobs& jobs, JobStores& stores, Process& process, std::shared_ptr<MetricSink> sink,
             const v1::QueryMetricsRequest& request, uint64_t job, std::string owner)
      : jobs_(jobs),
        stores_(stores),
        process_(process),
        owner_(std::move(owner)),
        sink_(std::move(sink)),
        request_(request),
        names_(request.names().begin(), request.names().end()),
        job_(job),
        reader_(stores.metrics, job, /*counts_all=*/request.attempt() != kFollowedLine) {}

  void Start(bool follow);

 private:
  using Source = std::tuple<uint32_t, uint32_t, std::string>;
  enum class Turn { kMore, kFull, kDone };
  void Watch();
  // Continues reading, unless a turn is in progress, which then continues automatically.
  void Wake();
  void Pump();
  absl::StatusOr<Turn> TakeTurn();
  // Everything that was stored has been read. True: that was all.
  bool EndOfStored();
  void Say(const v1::MetricBatch& batch, bool is_stored);
  void OnBatch(const v1::MetricBatch& batch);
  void Flush();

  Jobs& jobs_;
  JobStores& stores_;
  Process& process_;
  const std::string owner_;  // its work on the pool counts as this person's
  const std::shared_ptr<MetricSink> sink_;
  const v1::QueryMetricsRequest request_;
  const std::set<std::string> names_;
  const uint64_t job_;

  // Used by the pump only, one at a time.
  FollowedReader reader_;

  std::mutex mutex_;  // guards what follows
  WatchToken job_token_;
  WatchToken metric_token_;
  std::deque<v1::MetricBatch> waiting_;
  size_t waiting_bytes_ = 0;
  std::map<Source, uint64_t> said_;  // the newest seq
  bool follow_ = false;
  bool pumping_ = false;
  bool again_ = false;
  bool gone_ = false;
  bool keeps_new_ = false;  // new points are queued; until then they are found in the files
  bool stored_said_ = false;
  bool over_ = false;
  bool rest_awaited_ = false;
  bool rest_is_due_ = false;
};

void MetricFeed::Start(bool follow) {
  follow_ = follow;
  sink_->Observe(
      [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Wake();
      },
      [self = shared_from_this()] {
        std::lock_guard lock(self->mutex_);
        self->gone_ = true;
        self->job_token_ = nullptr;
        self->metric_token_ = nullptr;
      });
  if (follow) return Watch();
  Wake();
}

void MetricFeed::Watch() {
  {
    std::lock_guard lock(mutex_);
    metric_token_ = stores_.metrics.Watch(job_, [weak = weak_from_this()](const auto& batch) {
      if (const auto self = weak.lock()) self->OnBatch(batch);
    });
  }
  jobs_.loop.Ask([self = shared_from_this()](const LoopView& view) -> std::function<void()> {
    std::lock_guard lock(self->mutex_);
    self->over_ = !view.state.jobs.contains(self->job_);
    if (!self->over_) {
      self->job_token_ = view.watches.WatchJob(
          self->job_, [weak = self->weak_from_this()](const JobChange& change) {
            const auto alive = weak.lock();
            if (alive == nullptr) return;
            std::lock_guard guard(alive->mutex_);
            alive->over_ = change.record == nullptr || IsFinal(change.record->state());
            alive->Flush();
          });
    }
    return [self] { self->Wake(); };
  });
}

void MetricFeed::Wake() {
  {
    std::lock_guard lock(mutex_);
    if (gone_) return;
    if (stored_said_) return Flush();
    if (pumping_) {
      again_ = true;
      return;
    }
    pumping_ = true;
  }
  process_.reads.Post([self = shared_from_this()] { self->Pump(); }, owner_);
}

void MetricFeed::Pump() {
  {
    std::lock_guard lock(mutex_);
    again_ = false;
  }
  const absl::StatusOr<Turn> turn = TakeTurn();
  const bool is_short = absl::IsUnavailable(turn.status());
  if (!turn.ok() && !is_short) return sink_->Close(turn.status());
  {
    std::lock_guard lock(mutex_);
    pumping_ = false;
    if (gone_ || (turn.ok() && *turn == Turn::kDone)) return;
    // `drained` wakes a full one; it may just have run.
    if (turn.ok() && *turn == Turn::kFull && !again_) return;
    pumping_ = true;
  }
  process_.reads.PostAfter(
      is_short ? kShortageRetry : std::chrono::milliseconds(0),
      [self = shared_from_this()] { self->Pump(); }, owner_);
}

absl::StatusOr<MetricFeed::Turn> MetricFeed::TakeTurn() {
  v1::MetricBatch batch;
  for (size_t bytes = 0; bytes < kBytesPerTurn; bytes += batch.ByteSizeLong()) {
    if (sink_->QueuedBytes() >= MetricSink::kFullBytes) return Turn::kFull;
    ASSIGN_OR_RETURN(const FollowedReader::Read read, reader_.Next(batch));
    if (read == FollowedReader::Read::kPoints) {
      std::lock_guard lock(mutex_);
      Say(batch, true);
    } else if (read == FollowedReader::Read::kEnd && EndOfStored()) {
      return Turn::kDone;
    }
  }
  return Turn::kMore;
}

bool MetricFeed::EndOfStored() {
  std::lock_guard lock(mutex_);
  if (!follow_) {
    sink_->Close(absl::OkStatus());
    return true;
  }
  // Points that were stored until now are not in the queue: read the files once more.
  if (!std::exchange(keeps_new_, true)) return false;
  stored_said_ = true;
  Flush();
  return true;
}

void MetricFeed::Say(const v1::MetricBatch& batch, bool is_stored) {
  uint64_t& newest = said_[{batch.attempt(), batch.rank(), batch.source()}];
  if (batch.seq() <= newest) return;
  newest = batch.seq();
  if (request_.rank() != kAllRanks && batch.rank() != static_cast<uint32_t>(request_.rank()))
    return;
  if (request_.attempt() >= 0 && batch.attempt() != static_cast<uint32_t>(request_.attempt()))
    return;
  v1::MetricBatch wanted = batch;
  wanted.clear_points();
  for (const v1::MetricPoint& point : batch.points()) {
    if (!names_.empty() && !names_.contains(point.name())) continue;
    if (is_stored && reader_.IsReplaced(batch, point)) continue;
    *wanted.add_points() = point;
  }
  if (!wanted.points().empty()) sink_->Write(std::move(wanted));
}

void MetricFeed::OnBatch(const v1::MetricBatch& batch) {
  std::lock_guard lock(mutex_);
  if (!keeps_new_) return;
  if (waiting_bytes_ >= kMetricsWaitingBytesMax) {
    metric_token_ = nullptr;
    return sink_->Close(
        common::MakeProblem(absl::StatusCode::kResourceExhausted,
                            {.code = "JC1308",
                             .what = "metrics arrive faster than this follower reads them",
                             .fix = "follow again"}));
  }
  waiting_.push_back(batch);
  waiting_bytes_ += batch.ByteSizeLong();
  Flush();
}

void MetricFeed::Flush() {
  while (stored_said_ && !waiting_.empty() && sink_->QueuedBytes() < MetricSink::kFullBytes) {
    Say(waiting_.front(), false);
    waiting_bytes_ -= waiting_.front().ByteSizeLong();
    waiting_.pop_front();
  }
  if (!stored_said_ || !waiting_.empty() || !over_) return;
  if (rest_is_due_) return sink_->Close(absl::OkStatus());
  if (std::exchange(rest_awaited_, true)) return;
  process_.pool.PostAfter(kMetricRestWithin, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    std::lock_guard lock(self->mutex_);
    self->rest_is_due_ = true;
    self->Flush();
  });
}

}  // namespace

void QueryMetrics(Jobs& jobs, JobStores& stores, Process& process, const Caller& caller,
                  const v1::QueryMetricsRequest& request, std::shared_ptr<MetricSink> sink) {
  FindJob(jobs, process, caller, request.job(),
          [&jobs, &stores, &process, request, sink,
           owner = caller.principal](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return sink->Close(found.status());
            std::make_shared<MetricFeed>(jobs, stores, process, sink, request, found->record->id(),
                                         owner)
                ->Start(request.follow() && found->live);
          });
}
MUSTER_HANDLER(QueryMetrics)

}  // namespace muster::coordinator
