#include "coordinator/local/metric_store.h"

#include <bit>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/number_file.h"
#include "coordinator/local/metric_reader.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

}  // namespace

LocalMetricStore::LocalMetricStore(const Paths& paths, DiskUse use)
    : paths_(paths),
      queue_("metrics", use.gate),
      streams_(
          {.open = [this](const StreamKey& key) { return Open(key); },
           .patiently = [this](const auto& attempt) { return queue_.Patiently(attempt); },
           .synced = [this](const StreamKey& key, Stream& stream) { return Synced(key, stream); },
           .failed = [this](const StreamKey& key, Stream* stream,
                            const absl::Status& why) { StreamFailed(key, stream, why); }},
          use.open_max, kKnownStreamsMax),
      failing_(use.failures),
      quota_(paths, use.quota_bytes),
      thread_([this] { Run(); }) {}

void LocalMetricStore::Stop() {
  queue_.Stop();
  if (thread_.joinable()) thread_.join();
}

void LocalMetricStore::Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) {
  queue_.Push(QueuedBatch(std::move(batch), std::move(uploader)));
}

WatchToken LocalMetricStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

void LocalMetricStore::Run() {
  std::vector<QueuedBatch> batch;
  while (queue_.Take(batch, DueMs())) {
    for (QueuedBatch& queued : batch) {
      if (!is_leaving_) Handle(queued);
    }
    batch.clear();
    if (streams_.DueMs() != 0 && SteadyMs() >= streams_.DueMs()) streams_.Sync();
    for (const auto& uploader : failing_.TakeDue(SteadyMs())) uploader->SendAgain();
  }
  streams_.Sync();
}

void LocalMetricStore::Handle(QueuedBatch& queued) {
  const absl::Status status = Write(queued);
  // A shortage gets here only when the daemon stops; the worker still has the batches.
  is_leaving_ = IsShortage(status);
  if (status.ok() || is_leaving_) return;
  const StreamKey key{queued.batch.job(), queued.batch.attempt()};
  streams_.Fail(key, status);
  failing_.Owe(key, queued.uploader);
  queued.uploader->Consumed(queued.bytes);
}

void LocalMetricStore::StreamFailed(const StreamKey& key, Stream* stream, const absl::Status& why) {
  const int64_t pause_ms = failing_.Failed(key, SteadyMs());
  if (stream != nullptr) {
    for (const auto& [ack, uploader] : stream->acks) failing_.Owe(key, uploader);
    stream->acks.clear();
  }
  const common::Problem problem =
      FileFailed(StrCat("the metrics of job ", key.first, " attempt ", key.second), why, pause_ms);
  failing_.Tell({key.first, key.second, problem}, pause_ms);
  refusals_.Warn(problem);
}

absl::Status LocalMetricStore::Write(QueuedBatch& queued) {
  const v1::MetricBatch& batch = queued.batch;
  bool is_removed = false;
  {
    std::lock_guard lock(mutex_);
    is_removed = removed_.contains(batch.job());
  }
  if (is_removed) {
    queued.Refuse();
    return absl::OkStatus();
  }
  const StreamKey key{batch.job(), batch.attempt()};
  if (!failing_.Takes(key, queued.uploader, SteadyMs())) {
    queued.uploader->Consumed(queued.bytes);
    return absl::OkStatus();
  }
  queued.EncodeIfNeeded();
  bool is_new = false;
  ASSIGN_OR_RETURN(Stream* const stream, streams_.Use(key, &is_new));
  MetricSources& sources = stream->metrics.Sources();
  if (const absl::Status next = sources.CheckNext(batch); !next.ok()) {
    refusals_.Warn(std::string(next.message()));
    queued.Refuse();
    return absl::OkStatus();
  }
  const bool is_known = sources.IsKnown(batch);
  if (!is_known) {
    const absl::Status status = AppendIfRoom(*stream, queued);
    if (absl::IsOutOfRange(status)) {
      refusals_.Warn({.code = "JC1611",
                      .what = StrCat("metrics of job ", batch.job(), " are refused"),
                      .why = std::string(status.message()),
                      .fix = "remove the job"});
      queued.Refuse();
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(status);
  }
  sources.Take(batch);
  if (!is_known) {
    newest_.Take(batch);
    watchers_.Notify(batch.job(), batch);
  }
  stream->acks.emplace_back(AckFor(batch, sources.Newest(batch)), queued.uploader);
  streams_.Touch(key, queued.encoded.size(), SteadyMs() + kSyncDelayMs);
  queued.uploader->Consumed(queued.bytes);
  return absl::OkStatus();
}

absl::Status LocalMetricStore::AppendIfRoom(Stream& stream, const QueuedBatch& queued) {
  const v1::MetricBatch& batch = queued.batch;
  if (!quota_.IsFull(batch.job())) {
    quota_.Wrote(batch.job(), queued.encoded.size() + kRecordHeadBytes);
    return queue_.Patiently([&] { return stream.metrics.Append(batch, queued.encoded); });
  }
  refusals_.Warn(MetricsAreFull(batch.job()));
  return absl::OkStatus();
}

// If the stream already has batches, reads the newest values from the segments: the saved ones may
// be older.
absl::StatusOr<LocalMetricStore::Stream> LocalMetricStore::Open(const StreamKey& key) {
  ASSIGN_OR_RETURN(MetricStreamFile metrics, MetricStreamFile::Open(paths_, key.first, key.second));
  if (metrics.HadBatches()) Relearn(key.first);
  return Stream{std::move(metrics), {}};
}

bool LocalMetricStore::Synced(const StreamKey& key, Stream& stream) {
  SaveNewest(key.first);  // before the sender discards the batches that could correct it
  for (const auto& [ack, uploader] : stream.acks) {
    if (const auto alive = uploader.lock()) alive->Acknowledge(ack);
  }
  stream.acks.clear();
  return false;
}

void LocalMetricStore::DecorateFinished(v1::JobSummary& summary) {
  newest_.Choose(summary.id(), summary.metric());
  if (!newest_.Find(summary.id()).has_value()) Warm(summary.id());
  newest_.Decorate(summary);
}

std::unique_ptr<MetricReader> LocalMetricStore::Read(uint64_t job) const {
  return std::make_unique<LocalMetricReader>(paths_, job);
}

void LocalMetricStore::SaveNewest(uint64_t job) {
  const std::optional<NewestMetrics> newest = newest_.Find(job);
  if (!newest.has_value()) return;
  const std::vector<int64_t> numbers = newest->Numbers();
  if (numbers.empty()) return;
  const absl::Status saved = WriteNumbers(paths_.NewestMetricsFile(job), numbers);
  if (!saved.ok()) refusals_.Warn(std::string(saved.message()));
}

std::optional<NewestMetrics> LocalMetricStore::LoadNewest(uint64_t job) const {
  return NewestMetrics::Of(ReadNumbers(paths_.NewestMetricsFile(job), NewestMetrics::kNumbers));
}

absl::StatusOr<NewestMetrics> LocalMetricStore::FindNewest(uint64_t job) const {
  LocalMetricReader reader(paths_, job);
  return ReadNewest(reader, newest_.Nothing(job));
}

void LocalMetricStore::Warm(uint64_t job) {
  if (const std::optional<NewestMetrics> saved = LoadNewest(job)) return newest_.Keep(job, *saved);
  const absl::StatusOr<NewestMetrics> found = FindNewest(job);
  if (found.ok()) return newest_.Keep(job, *found);
  common::LogWarning(StrCat("cannot read the newest metrics job=", job, " reason=\"",
                            std::string(found.status().message()), "\""));
}

void LocalMetricStore::Relearn(uint64_t job) {
  const absl::StatusOr<NewestMetrics> found = FindNewest(job);
  if (found.ok()) newest_.Replace(job, *found);  // otherwise the known ones may be right
}

void LocalMetricStore::Remove(uint64_t job) {
  {
    std::lock_guard lock(mutex_);
    removed_.insert(job);
  }
  newest_.Forget(job);
  quota_.Forget(job);
  watchers_.Forget(job);
  if (const absl::Status status = common::RemoveTree(paths_.MetricDirectory(job)); !status.ok()) {
    common::LogWarning(StrCat("metrics of a removed job stay on disk job=", job, " reason=\"",
                              std::string(status.message()), "\""));
  }
}

}  // namespace muster::coordinator
