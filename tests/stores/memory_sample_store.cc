#include "tests/stores/memory_sample_store.h"

#include <deque>

namespace muster::coordinator {
namespace {

class ListReader final : public SampleReader {
 public:
  explicit ListReader(std::deque<v1::SampleBucket> buckets) : buckets_(std::move(buckets)) {}
  absl::StatusOr<bool> Next(v1::SampleBucket& bucket) override {
    if (buckets_.empty()) return false;
    bucket = std::move(buckets_.front());
    buckets_.pop_front();
    return true;
  }

 private:
  std::deque<v1::SampleBucket> buckets_;
};

}  // namespace

void MemorySampleStore::Stop() {
  std::lock_guard lock(samples_->mutex);
  for (auto& [key, stream] : samples_->streams) {
    for (size_t i = 0; i < stream.open.size(); ++i) {
      if (auto ended = stream.open[i].Take()) stream.tiers[i + 1].push_back(*std::move(ended));
    }
  }
}

void MemorySampleStore::Append(v1::SampleBatch batch) {
  auto shared = std::make_shared<const v1::SampleBatch>(std::move(batch));
  {
    std::lock_guard lock(samples_->mutex);
    if (removed_.contains(shared->job())) return;
    MemorySamples::Stream& stream =
        samples_->streams[{shared->job(), shared->attempt(), shared->node()}];
    if (stream.open.empty()) {
      for (size_t i = 1; i < std::size(kSampleTiers); ++i)
        stream.open.emplace_back(kSampleTiers[i]);
    }
    v1::SampleBucket bucket;
    bucket.set_tier(v1::SAMPLE_TIER_SECOND);
    *bucket.mutable_last() = *shared;
    bucket.set_batches(1);
    stream.tiers[0].push_back(std::move(bucket));
    for (size_t i = 0; i < stream.open.size(); ++i) {
      if (auto ended = stream.open[i].Add(*shared))
        stream.tiers[i + 1].push_back(*std::move(ended));
    }
  }
  newest_.Take(shared, common::MonotonicMs());
  watchers_.Notify(shared->job(), *shared);
}

std::vector<NewestSample> MemorySampleStore::Newest(uint64_t job) const {
  return newest_.Find(job, common::MonotonicMs());
}

WatchToken MemorySampleStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

std::unique_ptr<SampleReader> MemorySampleStore::Read(const SampleQuery& query) const {
  std::deque<v1::SampleBucket> buckets;
  std::lock_guard lock(samples_->mutex);
  for (const auto& [key, stream] : samples_->streams) {
    const auto& [job, attempt, node] = key;
    if (job != query.job || (query.attempt.has_value() && attempt != *query.attempt) ||
        (!query.node.empty() && node != query.node)) {
      continue;
    }
    for (size_t tier = 0; tier < std::size(kSampleTiers); ++tier) {
      if (kSampleTiers[tier].tier != query.tier) continue;
      for (const v1::SampleBucket& bucket : stream.tiers[tier]) {
        if (bucket.last().time_ms() >= query.since_ms) buckets.push_back(bucket);
      }
    }
  }
  return std::make_unique<ListReader>(std::move(buckets));
}

void MemorySampleStore::Remove(uint64_t job) {
  {
    std::lock_guard lock(samples_->mutex);
    removed_.insert(job);
    std::erase_if(samples_->streams,
                  [job](const auto& stream) { return std::get<0>(stream.first) == job; });
  }
  newest_.Forget(job);
  watchers_.Forget(job);
}

}  // namespace muster::coordinator
