// QuerySamples: stored buckets in pieces, as fast as the client reads them; or the newest, from
// memory.
#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {
namespace {

constexpr size_t kSampleBytesPerTurn = 1 << 20;

using SampleSink = Sink<v1::SampleBucket>;

void KeepRanks(const std::set<uint32_t>& ranks, v1::SampleBatch& batch) {
  if (ranks.empty()) return;
  auto& samples = *batch.mutable_ranks();
  samples.erase(std::remove_if(samples.begin(), samples.end(),
                               [&](const auto& each) { return !ranks.contains(each.rank()); }),
                samples.end());
}

void KeepWanted(const std::set<uint32_t>& ranks, v1::SampleBucket& bucket) {
  KeepRanks(ranks, *bucket.mutable_last());
  if (bucket.has_min()) KeepRanks(ranks, *bucket.mutable_min());
  if (bucket.has_max()) KeepRanks(ranks, *bucket.mutable_max());
}

std::set<uint32_t> AskedRanks(const v1::QuerySamplesRequest& request) {
  return {request.ranks().begin(), request.ranks().end()};
}

class SampleFeed : public std::enable_shared_from_this<SampleFeed> {
 public:
  SampleFeed(Process& process, std::shared_ptr<SampleSink> sink, std::set<uint32_t> ranks,
             std::unique_ptr<SampleReader> reader, std::string owner)
      : process_(process),
        owner_(std::move(owner)),
        sink_(std::move(sink)),
        ranks_(std::move(ranks)),
        reader_(std::move(reader)) {}

  void Start() {
    sink_->Observe(
        [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->Wake();
        },
        [self = shared_from_this()] {
          std::lock_guard lock(self->mutex_);
          self->is_gone_ = true;
        });
    Wake();
  }

 private:
  void Wake() {
    {
      std::lock_guard lock(mutex_);
      if (is_gone_) return;
      if (is_reading_) {
        again_ = true;
        return;
      }
      is_reading_ = true;
    }
    process_.reads.Post([self = shared_from_this()] { self->TakeTurn(); }, owner_);
  }

  void TakeTurn() {
    {
      std::lock_guard lock(mutex_);
      again_ = false;
    }
    const absl::StatusOr<bool> more = Send();
    const bool is_short = absl::IsUnavailable(more.status());
    if (!more.ok() && !is_short) return sink_->Close(more.status());
    if (more.ok() && !*more) return sink_->Close(absl::OkStatus());
    {
      std::lock_guard lock(mutex_);
      const bool is_full = sink_->QueuedBytes() >= SampleSink::kFullBytes;
      is_reading_ = !is_gone_ && (!is_full || again_);
      if (!is_reading_) return;
    }
    process_.reads.PostAfter(
        is_short ? kShortageRetry : std::chrono::milliseconds(0),
        [self = shared_from_this()] { self->TakeTurn(); }, owner_);
  }

  // False: everything has been sent.
  absl::StatusOr<bool> Send() {
    v1::SampleBucket bucket;
    for (size_t bytes = 0; bytes < kSampleBytesPerTurn; bytes += bucket.ByteSizeLong()) {
      if (sink_->QueuedBytes() >= SampleSink::kFullBytes) return true;
      ASSIGN_OR_RETURN(const bool found, reader_->Next(bucket));
      if (!found) return false;
      KeepWanted(ranks_, bucket);
      sink_->Write(bucket);
    }
    return true;
  }

  Process& process_;
  const std::string owner_;  // its work on the pool counts as this person's
  const std::shared_ptr<SampleSink> sink_;
  const std::set<uint32_t> ranks_;
  const std::unique_ptr<SampleReader> reader_;  // used by one turn at a time

  std::mutex mutex_;  // guards what follows
  bool is_reading_ = false;
  bool again_ = false;
  bool is_gone_ = false;
};

void SendNewest(JobStores& stores, const v1::QuerySamplesRequest& request, uint64_t job,
                SampleSink& sink) {
  for (const NewestSample& newest : stores.samples.Newest(job)) {
    if (!request.node().empty() && newest.batch->node() != request.node()) continue;
    if (request.has_attempt() && newest.batch->attempt() != request.attempt()) continue;
    v1::SampleBucket bucket;
    bucket.set_tier(v1::SAMPLE_TIER_SECOND);
    *bucket.mutable_last() = *newest.batch;
    bucket.set_batches(1);
    bucket.set_age_ms(newest.age_ms);
    KeepWanted(AskedRanks(request), bucket);
    sink.Write(std::move(bucket));
  }
}

void SendNewestOfAll(Jobs& jobs, JobStores& stores, const v1::QuerySamplesRequest& request,
                     const std::shared_ptr<SampleSink>& sink) {
  jobs.loop.Ask(
      [&stores, request, sink](const LoopView& view) -> std::function<void()> {
        std::vector<uint64_t> running;
        for (const auto& [id, job] : view.state.jobs) {
          if (job.state() == v1::JOB_STATE_RUNNING) running.push_back(id);
        }
        return [&stores, request, sink, running = std::move(running)] {
          for (const uint64_t job : running) SendNewest(stores, request, job, *sink);
          sink->Close(absl::OkStatus());
        };
      },
      [sink](const absl::Status& full) { sink->Close(full); });
}

SampleQuery SampleQueryOf(const v1::QuerySamplesRequest& request, uint64_t job) {
  SampleQuery query{
      .job = job, .node = request.node(), .since_ms = std::max<int64_t>(request.since_ms(), 0)};
  if (request.has_attempt()) query.attempt = request.attempt();
  if (request.tier() != v1::SAMPLE_TIER_UNSPECIFIED) query.tier = request.tier();
  return query;
}

}  // namespace

void QuerySamples(Jobs& jobs, JobStores& stores, Process& process, const Caller& caller,
                  const v1::QuerySamplesRequest& request, std::shared_ptr<SampleSink> sink) {
  if (request.newest() && request.job().empty())
    return SendNewestOfAll(jobs, stores, request, sink);
  FindJob(
      jobs, process, caller, request.job(),
      [&stores, &process, request, sink, owner = caller.principal](absl::StatusOr<FoundJob> found) {
        if (!found.ok()) return sink->Close(found.status());
        const uint64_t job = found->record->id();
        if (request.newest()) {
          SendNewest(stores, request, job, *sink);
          return sink->Close(absl::OkStatus());
        }
        std::make_shared<SampleFeed>(process, sink, AskedRanks(request),
                                     stores.samples.Read(SampleQueryOf(request, job)), owner)
            ->Start();
      });
}
MUSTER_HANDLER(QuerySamples)

}  // namespace muster::coordinator
