// metric_forwarder: ranks take turns.
#include "worker/output/metric_forwarder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/text/strings.h"
#include "common/text/text.h"

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

bool MetricForwarder::OpenSpool(const RankKey& rank) {
  absl::StatusOr<MetricSpool> spool =
      MetricSpool::Open(paths_.MetricBatches(rank.first, rank.second));
  if (spool.ok()) {
    missing_.erase(rank);
    troubles_.erase(rank);
    Used(rank, spools_.emplace(rank, *std::move(spool)).first->second);
    return true;
  }
  DiskTrouble& trouble = troubles_[rank];
  const bool may_wait = trouble.MayWait(spool.status(), now_ms_);
  const bool is_new = missing_.insert(rank).second;
  if (!may_wait) missing_.erase(rank);
  if (is_new || !may_wait) {
    callbacks_.note(common::StrCat("metrics of rank ", rank.second, " cannot be stored",
                                   may_wait ? " yet" : "", " job=", rank.first.job,
                                   " attempt=", rank.first.attempt, " reason=\"",
                                   std::string(spool.status().message()), "\""));
  }
  return false;
}

void MetricForwarder::OpenMissing() {
  std::vector<RankKey> due;
  for (const RankKey& rank : missing_) {
    if (!troubles_[rank].Waits(now_ms_)) due.push_back(rank);
  }
  for (const RankKey& rank : due) {
    OpenSpool(rank);
    CheckDrained(rank.first);
  }
}

void MetricForwarder::WaitOrDrop(const RankKey& rank, MetricSpool& spool,
                                 const absl::Status& failure) {
  DiskTrouble& trouble = troubles_[rank];
  if (!trouble.MayWait(failure, now_ms_)) {
    troubles_.erase(rank);
    spool.DropAll();
    return;
  }
  if (!trouble.IsNew()) return;
  callbacks_.note(common::StrCat("metrics of rank ", rank.second, " wait job=", rank.first.job,
                                 " attempt=", rank.first.attempt, " reason=\"",
                                 std::string(failure.message()), "\""));
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
  auto spool = spools_.find({key, rank});
  if (spool == spools_.end() && missing_.contains({key, rank}) && OpenSpool({key, rank}))
    spool = spools_.find({key, rank});
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
  troubles_.erase(troubles_.lower_bound({key, 0}), troubles_.upper_bound({key, UINT32_MAX}));
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

std::optional<int64_t> MetricForwarder::Pump(int64_t now_ms) {
  now_ms_ = now_ms;
  if (!missing_.empty()) OpenMissing();
  size_t idle = 0;
  auto at = spools_.upper_bound(turn_);
  while (idle < spools_.size() && callbacks_.can_send()) {
    if (at == spools_.end()) at = spools_.begin();
    std::optional<v1::MetricBatch> batch;
    if (at->second.HasNext()) batch = Next(at->first, at->second);
    if (batch) {
      turn_ = at->first;
      callbacks_.send(UploadOf(at->first, *std::move(batch)));
      idle = 0;
    } else {
      ++idle;
    }
    ++at;
  }
  std::optional<int64_t> later;
  for (const auto& [rank, trouble] : troubles_)
    later = std::min(later.value_or(INT64_MAX), trouble.retry_ms());
  return later;
}

// Sends the bytes of the file unchanged. They are not trusted, so they may only report for their own rank.
v1::MetricBatch MetricForwarder::UploadOf(const RankKey& rank, v1::MetricBatch batch) {
  v1::MetricBatch upload;
  if (batch.job() == rank.first.job && batch.attempt() == rank.first.attempt &&
      batch.rank() == rank.second) {
    upload.set_encoded(std::move(*batch.mutable_encoded()));
    return upload;
  }
  upload = std::move(batch);
  upload.clear_encoded();
  upload.set_job(rank.first.job);
  upload.set_attempt(rank.first.attempt);
  upload.set_rank(rank.second);
  return upload;
}

std::optional<v1::MetricBatch> MetricForwarder::Next(const RankKey& rank, MetricSpool& spool) {
  const auto trouble = troubles_.find(rank);
  if (trouble != troubles_.end() && trouble->second.Waits(now_ms_)) return std::nullopt;
  absl::StatusOr<std::optional<v1::MetricBatch>> batch = spool.Next();
  if (batch.ok()) {
    troubles_.erase(rank);
  } else {
    WaitOrDrop(rank, spool, batch.status());
    batch = std::nullopt;
  }
  Used(rank, spool);
  if (!batch->has_value()) CheckDrained(rank.first);  // unreadable batches are abandoned
  return *std::move(batch);
}

bool MetricForwarder::IsNothingMissing(const AttemptKey& key) const {
  const auto last = missing_.upper_bound({key, UINT32_MAX});
  return std::none_of(missing_.lower_bound({key, 0}), last, [this](const RankKey& rank) {
    struct stat info {};
    const std::string path = paths_.MetricBatches(rank.first, rank.second);
    if (stat(path.c_str(), &info) != 0) return errno != ENOENT;
    return info.st_size > 0;
  });
}

void MetricForwarder::CheckDrained(const AttemptKey& key) {
  if (ended_.count(key) == 0 || !IsNothingMissing(key)) return;
  for (auto at = spools_.lower_bound({key, 0}); at != spools_.end() && at->first.first == key;
       ++at) {
    if (!at->second.Drained()) return;
  }
  ended_.erase(key);
  callbacks_.drained(key);
}

}  // namespace muster::worker
