// metric_forwarder: ranks take turns.
#include "worker/metric_forwarder.h"

#include <utility>

#include "common/strings.h"
#include "common/text.h"

namespace muster::worker {
namespace {

// Marks a source that the coordinator refuses: nothing of it is sent or stored anymore.
constexpr uint64_t kNeverAgain = UINT64_MAX - 1;  // one less, because the expected next seq adds 1

}  // namespace

MetricForwarder::MetricForwarder(Paths paths, Callbacks callbacks, size_t open_max)
    : paths_(std::move(paths)), callbacks_(std::move(callbacks)), open_files_(open_max) {}

void MetricForwarder::Add(const AttemptKey& key, uint32_t first_rank, uint32_t ranks) {
  for (uint32_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    if (spools_.count({key, rank}) == 0) OpenSpool({key, rank});
  }
}

void MetricForwarder::OpenSpool(const RankKey& rank) {
  absl::StatusOr<MetricSpool> spool =
      MetricSpool::Open(paths_.MetricBatches(rank.first, rank.second));
  if (spool.ok()) {
    missing_.erase(rank);
    Used(rank, spools_.emplace(rank, *std::move(spool)).first->second);
  } else if (missing_.insert(rank).second) {
    callbacks_.note(common::StrCat("metrics of rank ", rank.second, " cannot be stored yet job=",
                                   rank.first.job, " attempt=", rank.first.attempt, " reason=\"",
                                   std::string(spool.status().message()), "\""));
  }
}

void MetricForwarder::Used(const RankKey& rank, MetricSpool& spool) {
  open_files_.Use(&spool, [&spool] { spool.Close(); });
  const uint64_t lost = spool.TakeDamage();
  if (lost == 0) return;
  callbacks_.note(common::StrCat("metrics of rank ", rank.second, " lost: ", lost,
                                 " bytes cannot be read job=", rank.first.job,
                                 " attempt=", rank.first.attempt,
                                 " file=", paths_.MetricBatches(rank.first, rank.second)));
}

absl::Status MetricForwarder::Append(const AttemptKey& key, uint32_t rank, v1::MetricBatch batch) {
  if (missing_.count({key, rank}) > 0) OpenSpool({key, rank});
  auto spool = spools_.find({key, rank});
  if (spool == spools_.end()) {
    return absl::NotFoundError(common::StrCat("rank ", rank, " has no metrics spool here"));
  }
  if (batch.seq() <= spool->second.LastSeq(batch.source())) return absl::OkStatus();
  batch.set_job(key.job);
  batch.set_attempt(key.attempt);
  batch.set_rank(rank);
  const absl::Status kept = spool->second.Append(batch);
  Used(spool->first, spool->second);
  return kept;
}

std::map<std::string, std::pair<uint64_t, uint32_t>> MetricForwarder::Known(
    const AttemptKey& key) const {
  std::map<std::string, std::pair<uint64_t, uint32_t>> known;
  for (auto at = spools_.lower_bound({key, 0}); at != spools_.end() && at->first.first == key;
       ++at) {
    for (const auto& [source, seq] : at->second.LastSeqs()) {
      if (seq > known[source].first) known[source] = {seq, at->first.second};
    }
  }
  return known;
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
  missing_.erase(missing_.lower_bound({key, 0}), missing_.upper_bound({key, UINT32_MAX}));
  for (auto at = spools_.lower_bound({key, 0}); at != spools_.end() && at->first.first == key;
       ++at) {
    open_files_.Forget(&at->second);
  }
  spools_.erase(spools_.lower_bound({key, 0}), spools_.upper_bound({key, UINT32_MAX}));
}

void MetricForwarder::Restart() {
  for (auto& [rank, spool] : spools_) spool.Rewind();
}

void MetricForwarder::OnAck(const v1::MetricAck& ack) {
  const AttemptKey key{ack.job(), ack.attempt()};
  auto spool = spools_.find({key, ack.rank()});
  if (spool == spools_.end()) return;
  if (ack.refused() && spool->second.LastSeq(ack.source()) != kNeverAgain) {
    callbacks_.note(common::StrCat("metrics abandoned job=", key.job, " attempt=", key.attempt,
                                   " rank=", ack.rank(), " source=\"",
                                   common::Printable(ack.source()),
                                   "\" reason=\"the coordinator refused them\""));
  }
  spool->second.OnAck(ack.source(), ack.refused() ? kNeverAgain : ack.durable_seq());
  Used(spool->first, spool->second);
  CheckDrained(key);
}

void MetricForwarder::Pump() {
  size_t idle = 0;
  auto at = spools_.upper_bound(turn_);
  while (idle < spools_.size() && callbacks_.can_send()) {
    if (at == spools_.end()) at = spools_.begin();
    std::optional<v1::MetricBatch> batch;
    if (at->second.HasNext()) {
      batch = at->second.Next();
      Used(at->first, at->second);
      if (!batch) CheckDrained(at->first.first);  // what cannot be read is abandoned
    }
    if (batch) {
      turn_ = at->first;
      // Do not trust the file: it may only speak for its own rank.
      batch->set_job(at->first.first.job);
      batch->set_attempt(at->first.first.attempt);
      batch->set_rank(at->first.second);
      callbacks_.send(*std::move(batch));
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
  callbacks_.drained(key);
}

}  // namespace muster::worker
