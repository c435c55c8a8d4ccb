#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "coordinator/core/state.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {
namespace {

constexpr int kFollowedLine = -1;  // QueryMetricsRequest.attempt
constexpr int kAllRanks = -1;
constexpr size_t kSparkValues = 24;
constexpr size_t kWaitingBatchesMax = 10'000;  // that a slow follower has not taken

// After a job's end, how long a follower waits for points that are still under way. A lost node's
// never come.
constexpr std::chrono::seconds kRestWithin{1};

using MetricSink = Sink<v1::MetricBatch>;

bool WantsPoint(const v1::QueryMetricsRequest& request, const std::set<std::string>& names,
                const v1::MetricPoint& point) {
  return request.names().empty() || names.contains(point.name());
}

// The line that the job followed: a later attempt replaces what earlier ones said of the steps from
// its first one on. `batches` are in attempt order.
std::map<uint32_t, int64_t> FirstSteps(const std::vector<v1::MetricBatch>& batches) {
  std::map<uint32_t, int64_t> first;
  for (const v1::MetricBatch& batch : batches) {
    for (const v1::MetricPoint& point : batch.points()) {
      const auto [entry, is_new] = first.emplace(batch.attempt(), point.step());
      if (!is_new) entry->second = std::min(entry->second, point.step());
    }
  }
  return first;
}

bool IsReplaced(const std::map<uint32_t, int64_t>& first_steps, uint32_t attempt, int64_t step) {
  for (auto later = first_steps.upper_bound(attempt); later != first_steps.end(); ++later) {
    if (step >= later->second) return true;
  }
  return false;
}

// One reader: what is stored, then what comes, until the job is over.
class MetricFeed : public std::enable_shared_from_this<MetricFeed> {
 public:
  MetricFeed(Daemon& daemon, std::shared_ptr<MetricSink> sink,
             const v1::QueryMetricsRequest& request, uint64_t job)
      : daemon_(daemon),
        sink_(std::move(sink)),
        request_(request),
        names_(request.names().begin(), request.names().end()),
        job_(job) {}

  void Start(bool follow);

 private:
  using Source = std::tuple<uint32_t, uint32_t, std::string>;
  void SayStored(bool follow);
  void Say(const v1::MetricBatch& batch, const std::map<uint32_t, int64_t>* first_steps);
  void OnBatch(const v1::MetricBatch& batch);
  void Flush();

  Daemon& daemon_;
  const std::shared_ptr<MetricSink> sink_;
  const v1::QueryMetricsRequest request_;
  const std::set<std::string> names_;
  const uint64_t job_;

  std::mutex mutex_;  // guards what follows
  WatchToken job_token_;
  WatchToken metric_token_;
  std::deque<v1::MetricBatch> waiting_;
  std::map<Source, uint64_t> said_;  // the newest seq
  bool stored_said_ = false;
  bool over_ = false;
  bool rest_awaited_ = false;
  bool rest_is_due_ = false;
};

void MetricFeed::Start(bool follow) {
  sink_->Observe(
      [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        std::lock_guard lock(self->mutex_);
        self->Flush();
      },
      [self = shared_from_this()] {
        std::lock_guard lock(self->mutex_);
        self->job_token_ = nullptr;
        self->metric_token_ = nullptr;
      });
  if (!follow) {
    daemon_.pool.Post([self = shared_from_this()] { self->SayStored(false); });
    return;
  }
  {
    std::lock_guard lock(mutex_);
    metric_token_ = daemon_.metrics.Watch(job_, [weak = weak_from_this()](const auto& batch) {
      if (const auto self = weak.lock()) self->OnBatch(batch);
    });
  }
  daemon_.loop.Ask([self = shared_from_this()](const LoopView& view) -> std::function<void()> {
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
    return [self] { self->daemon_.pool.Post([self] { self->SayStored(true); }); };
  });
}

void MetricFeed::SayStored(bool follow) {
  absl::StatusOr<std::vector<v1::MetricBatch>> batches = daemon_.metrics.Read(job_);
  if (!batches.ok()) return sink_->Close(batches.status());
  const std::map<uint32_t, int64_t> first_steps = FirstSteps(*batches);
  std::lock_guard lock(mutex_);
  for (const v1::MetricBatch& batch : *batches) Say(batch, &first_steps);
  if (!follow) return sink_->Close(absl::OkStatus());
  stored_said_ = true;
  Flush();
}

void MetricFeed::Say(const v1::MetricBatch& batch, const std::map<uint32_t, int64_t>* first_steps) {
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
    if (!WantsPoint(request_, names_, point)) continue;
    if (request_.attempt() == kFollowedLine && first_steps != nullptr &&
        IsReplaced(*first_steps, batch.attempt(), point.step())) {
      continue;
    }
    *wanted.add_points() = point;
  }
  if (!wanted.points().empty()) sink_->Write(std::move(wanted));
}

void MetricFeed::OnBatch(const v1::MetricBatch& batch) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() >= kWaitingBatchesMax) {
    metric_token_ = nullptr;
    return sink_->Close(absl::ResourceExhaustedError(
        "[JC1308] this follower of metrics reads more slowly than they come; fix: follow again"));
  }
  waiting_.push_back(batch);
  Flush();
}

void MetricFeed::Flush() {
  while (stored_said_ && !waiting_.empty() && sink_->QueuedBytes() < MetricSink::kFullBytes) {
    Say(waiting_.front(), nullptr);
    waiting_.pop_front();
  }
  if (!stored_said_ || !waiting_.empty() || !over_) return;
  if (rest_is_due_) return sink_->Close(absl::OkStatus());
  if (std::exchange(rest_awaited_, true)) return;
  daemon_.pool.PostAfter(kRestWithin, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    std::lock_guard lock(self->mutex_);
    self->rest_is_due_ = true;
    self->Flush();
  });
}

struct Series {
  v1::MetricSummary summary;
  std::map<int64_t, double> by_step;
};

void Add(Series& series, const v1::MetricPoint& point) {
  v1::MetricSummary& summary = series.summary;
  const double value = point.value();
  if (summary.count() == 0) {
    summary.set_first(value);
    summary.set_min(value);
    summary.set_max(value);
  }
  summary.set_count(summary.count() + 1);
  summary.set_last(value);
  summary.set_min(std::min(summary.min(), value));
  summary.set_max(std::max(summary.max(), value));
  summary.set_last_step(point.step());
  series.by_step[point.step()] = value;
}

void AddSpark(Series& series) {
  std::vector<double> values;
  for (const auto& [step, value] : series.by_step) values.push_back(value);
  const size_t count = std::min(values.size(), kSparkValues);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = count == 1 ? 0 : i * (values.size() - 1) / (count - 1);
    series.summary.add_spark(values[at]);
  }
}

v1::MetricSummaries SummariesOf(const std::vector<v1::MetricBatch>& batches) {
  const std::map<uint32_t, int64_t> first_steps = FirstSteps(batches);
  std::map<std::pair<std::string, uint32_t>, Series> all;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, uint64_t> dropped;
  for (const v1::MetricBatch& batch : batches) {
    uint64_t& lost = dropped[{batch.attempt(), batch.rank(), batch.source()}];
    lost = std::max(lost, batch.dropped());
    for (const v1::MetricPoint& point : batch.points()) {
      if (!IsReplaced(first_steps, batch.attempt(), point.step())) {
        Add(all[{point.name(), batch.rank()}], point);
      }
    }
  }
  v1::MetricSummaries summaries;
  for (auto& [key, series] : all) {
    AddSpark(series);
    series.summary.set_name(key.first);
    series.summary.set_rank(static_cast<int>(key.second));
    *summaries.add_summaries() = std::move(series.summary);
  }
  uint64_t lost = 0;
  for (const auto& [source, count] : dropped) lost += count;
  summaries.set_dropped(lost);
  return summaries;
}

}  // namespace

void QueryMetrics(Daemon& daemon, const Caller& caller, const v1::QueryMetricsRequest& request,
                  std::shared_ptr<MetricSink> sink) {
  FindJob(daemon, caller, request.job(), [&daemon, request, sink](absl::StatusOr<FoundJob> found) {
    if (!found.ok()) return sink->Close(found.status());
    std::make_shared<MetricFeed>(daemon, sink, request, found->record->id())
        ->Start(request.follow() && found->live);
  });
}

void SummarizeMetrics(Daemon& daemon, const Caller& caller, const v1::JobReference& request,
                      Answer<v1::MetricSummaries> answer) {
  FindJob(daemon, caller, request.job(),
          [&daemon, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            daemon.pool.Post([&daemon, answer, job = found->record->id()] {
              const auto batches = daemon.metrics.Read(job);
              if (!batches.ok()) return answer(batches.status());
              answer(SummariesOf(*batches));
            });
          });
}

}  // namespace muster::coordinator
