// metric_forwarder: ranks take turns.
#include "worker/metric_forwarder.h"

#include <utility>

#include "common/strings.h"

namespace muster::worker {

MetricForwarder::MetricForwarder(Paths paths, Doors doors)
    : paths_(std::move(paths)), doors_(std::move(doors)) {}

void MetricForwarder::Add(const AttemptKey& key, uint32_t first_rank, uint32_t ranks) {
  for (uint32_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    if (spools_.count({key, rank}) > 0) continue;
    absl::StatusOr<MetricSpool> spool = MetricSpool::Open(paths_.MetricBatches(key, rank));
    if (!spool.ok()) {
      doors_.note(common::StrCat("metrics of rank ", rank, " cannot be kept job=", key.job,
                                 " attempt=", key.attempt, " reason=\"",
                                 std::string(spool.status().message()), "\""));
      continue;
    }
    spools_.emplace(RankKey{key, rank}, *std::move(spool));
  }
}

absl::Status MetricForwarder::Append(const AttemptKey& key, uint32_t rank, v1::MetricBatch batch) {
  auto spool = spools_.find({key, rank});
  if (spool == spools_.end()) {
    return absl::NotFoundError(common::StrCat("rank ", rank, " has no place for metrics here"));
  }
  if (batch.seq() <= spool->second.LastSeq(batch.source())) return absl::OkStatus();
  batch.set_job(key.job);
  batch.set_attempt(key.attempt);
  batch.set_rank(rank);
  return spool->second.Append(batch);
}

uint64_t MetricForwarder::LastSeq(const AttemptKey& key, uint32_t rank,
                                  const std::string& source) const {
  auto spool = spools_.find({key, rank});
  return spool == spools_.end() ? 0 : spool->second.LastSeq(source);
}

void MetricForwarder::Ended(const AttemptKey& key) {
  ended_.insert(key);
  CheckDrained(key);
}

void MetricForwarder::Remove(const AttemptKey& key) {
  ended_.erase(key);
  spools_.erase(spools_.lower_bound({key, 0}), spools_.upper_bound({key, UINT32_MAX}));
}

void MetricForwarder::Restart() {
  for (auto& [rank, spool] : spools_) spool.Rewind();
}

void MetricForwarder::OnAck(const v1::MetricAck& ack) {
  const AttemptKey key{ack.job(), ack.attempt()};
  auto spool = spools_.find({key, ack.rank()});
  if (spool == spools_.end()) return;
  if (ack.refused()) {
    spool->second.DropAll();
  } else {
    spool->second.OnAck(ack.source(), ack.durable_seq());
  }
  CheckDrained(key);
}

void MetricForwarder::Pump() {
  size_t idle = 0;
  auto at = spools_.upper_bound(turn_);
  while (idle < spools_.size() && doors_.can_send()) {
    if (at == spools_.end()) at = spools_.begin();
    if (std::optional<v1::MetricBatch> batch = at->second.Next()) {
      turn_ = at->first;
      doors_.send(*std::move(batch));
      idle = 0;
    } else {
      ++idle;
    }
    ++at;
  }
}

void MetricForwarder::CheckDrained(const AttemptKey& key) {
  if (ended_.count(key) == 0) return;
  for (auto at = spools_.lower_bound({key, 0}); at != spools_.end() && at->first.first == key;
       ++at) {
    if (!at->second.Drained()) return;
  }
  ended_.erase(key);
  doors_.drained(key);
}

}  // namespace muster::worker
