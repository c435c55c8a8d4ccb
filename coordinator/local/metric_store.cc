#include "coordinator/local/metric_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/local/metric_reader.h"
#include "coordinator/local/metric_segment.h"
#include "coordinator/number_file.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

}  // namespace

LocalMetricStore::LocalMetricStore(const Paths& paths,
                                   std::function<void(const absl::Status&)> failed, size_t open_max)
    : paths_(paths),
      failed_(std::move(failed)),
      open_max_(std::max<size_t>(open_max, 1)),
      thread_([this] { Run(); }) {}

void LocalMetricStore::Stop() {
  queue_.Stop();
  if (thread_.joinable()) thread_.join();
}

void LocalMetricStore::Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) {
  queue_.Push({std::move(batch), std::move(uploader)});
}

WatchToken LocalMetricStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

void LocalMetricStore::Run() {
  std::vector<Queued> batch;
  absl::Status status;
  while (status.ok() && queue_.Take(batch, sync_due_ms_)) {
    for (Queued& queued : batch) {
      if (status.ok()) status = Write(queued);
    }
    batch.clear();
    if (status.ok() && sync_due_ms_ != 0 && SteadyMs() >= sync_due_ms_) status = Sync();
  }
  if (status.ok()) status = Sync();
  // A shortage gets here only when the daemon ends: the worker keeps the batches.
  if (status.ok() || IsShortage(status)) return;
  failed_(common::MakeProblem(absl::StatusCode::kInternal, {.code = "JC1602",
                                                            .what = "cannot keep metrics",
                                                            .why = std::string(status.message()),
                                                            .fix = "check the disk"}));
}

absl::Status LocalMetricStore::Write(Queued& queued) {
  const v1::MetricBatch& batch = queued.batch;
  bool is_removed = false;
  {
    std::lock_guard lock(mutex_);
    is_removed = removed_.contains(batch.job());
  }
  if (is_removed) {
    Refuse(queued);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Segment * segment, SegmentOf({batch.job(), batch.attempt()}));
  if (const absl::Status next = segment->sources.CheckNext(batch); !next.ok()) {
    refusals_.Warn(std::string(next.message()));
    Refuse(queued);
    return absl::OkStatus();
  }
  if (batch.seq() > segment->sources.Newest(batch)) {
    const std::string record = EncodeMetricRecord(batch);
    const absl::Status status = queue_.Patiently([&] { return Append(*segment, record); });
    if (absl::IsOutOfRange(status)) {
      refusals_.Warn({.code = "JC1611",
                      .what = StrCat("metrics of job ", batch.job(), " are refused"),
                      .why = std::string(status.message()),
                      .fix = "remove the job"});
      Refuse(queued);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(status);
    segment->sources.Take(batch);
    newest_.Take(batch);
    watchers_.Notify(batch.job(), batch);
  }
  segment->acks.emplace_back(AckFor(batch, segment->sources.Newest(batch)), queued.uploader);
  dirty_.insert({batch.job(), batch.attempt()});
  if (sync_due_ms_ == 0) sync_due_ms_ = SteadyMs() + kSyncDelayMs;
  queued.uploader->Consumed(batch.ByteSizeLong());
  return absl::OkStatus();
}

void LocalMetricStore::Refuse(Queued& queued) {
  queued.uploader->Acknowledge(RefusalOf(queued.batch));
  queued.uploader->Consumed(queued.batch.ByteSizeLong());
}

absl::StatusOr<LocalMetricStore::Segment*> LocalMetricStore::SegmentOf(const SegmentKey& key) {
  const auto known = segments_.find(key);
  if (known != segments_.end() && known->second.fd.valid()) {
    open_.erase(known->second.used);
  } else {
    RETURN_IF_ERROR(CloseIdle(open_max_));
    RETURN_IF_ERROR(queue_.Patiently([&]() -> absl::Status {
      absl::Status status = OpenSegment(key);
      // Somebody else took the last descriptors: better few open files than none.
      while (absl::IsUnavailable(status) && !open_.empty()) {
        RETURN_IF_ERROR(CloseIdle(open_.size()));
        status = OpenSegment(key);
      }
      return status;
    }));
  }
  Segment& segment = segments_.at(key);
  segment.used = ++uses_;
  open_[segment.used] = key;
  return &segment;
}

// The first time it finds where each source stands, learns what a restart forgot (the values that
// were left beside the segments may be older than these) and cuts off a torn end.
absl::Status LocalMetricStore::OpenSegment(const SegmentKey& key) {
  const std::string path = paths_.MetricFile(key.first, key.second);
  if (const auto known = segments_.find(key); known != segments_.end()) {
    known->second.fd = common::UniqueFd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (known->second.fd.valid()) return absl::OkStatus();
    const absl::Status status = common::ErrnoStatus(StrCat("cannot open ", path));
    if (!absl::IsNotFound(status)) return status;
    segments_.erase(known);
  }
  if (segments_.size() >= kKnownSegmentsMax) {
    std::erase_if(segments_, [](const auto& known) { return !known.second.fd.valid(); });
  }
  RETURN_IF_ERROR(common::MakeDirectories(paths_.MetricDirectory(key.first)));
  Segment segment;
  MetricSegmentReader reader(path);
  v1::MetricBatch batch;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader.Next(batch));
    if (!found) break;
    segment.sources.Take(batch);
  }
  segment.bytes = reader.SoundBytes();
  segment.fd = common::UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!segment.fd.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  if (ftruncate(segment.fd.get(), static_cast<off_t>(segment.bytes)) != 0) {
    return common::ErrnoStatus(StrCat("cannot cut the torn end of ", path));
  }
  if (segment.bytes > 0) Relearn(key.first);
  segments_[key] = std::move(segment);
  return absl::OkStatus();
}

// All of the record or, as the place behind it does not move, none of it.
absl::Status LocalMetricStore::Append(Segment& segment, const std::string& record) {
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t count = pwrite(segment.fd.get(), record.data() + done, record.size() - done,
                                 static_cast<off_t>(segment.bytes + done));
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EFBIG) {
      return absl::OutOfRangeError("a metric segment is as large as a file can be");
    } else if (errno != EINTR) {
      return common::ErrnoStatus("cannot append to a metric segment");
    }
  }
  segment.bytes += record.size();
  return absl::OkStatus();
}

absl::Status LocalMetricStore::CloseIdle(size_t most) {
  if (open_.empty() || open_.size() < most) return absl::OkStatus();
  RETURN_IF_ERROR(Sync());
  while (open_.size() >= most && !open_.empty()) {
    segments_.at(open_.begin()->second).fd.Reset();
    open_.erase(open_.begin());
  }
  return absl::OkStatus();
}

absl::Status LocalMetricStore::Sync() {
  sync_due_ms_ = 0;
  for (const SegmentKey& key : dirty_) {
    Segment& segment = segments_.at(key);
    if (fdatasync(segment.fd.get()) != 0) {
      // What a sync could not write may be gone from memory too: even a full disk ends it here.
      return absl::InternalError(common::ErrnoStatus("cannot sync metrics").message());
    }
    SaveNewest(key.first);  // before its sender forgets what would correct it
    for (const auto& [ack, uploader] : segment.acks) {
      if (const auto alive = uploader.lock()) alive->Acknowledge(ack);
    }
    segment.acks.clear();
  }
  dirty_.clear();
  return absl::OkStatus();
}

void LocalMetricStore::DecorateFinished(v1::JobSummary& summary) {
  if (!newest_.Find(summary.id()).has_value()) Warm(summary.id());
  newest_.Decorate(summary);
}

std::unique_ptr<MetricReader> LocalMetricStore::Read(uint64_t job) const {
  return std::make_unique<LocalMetricReader>(paths_, job);
}

void LocalMetricStore::SaveNewest(uint64_t job) {
  const std::optional<NewestMetrics> newest = newest_.Find(job);
  if (!newest.has_value()) return;
  const absl::Status saved =
      WriteNumbers(paths_.NewestMetricsFile(job),
                   {newest->step, std::bit_cast<int64_t>(newest->loss), newest->has_loss});
  if (!saved.ok()) refusals_.Warn(std::string(saved.message()));
}

std::optional<NewestMetrics> LocalMetricStore::LoadNewest(uint64_t job) const {
  const std::vector<int64_t> numbers = ReadNumbers(paths_.NewestMetricsFile(job), 3);
  if (numbers.empty()) return std::nullopt;
  return NewestMetrics{numbers[0], std::bit_cast<double>(numbers[1]), numbers[2] != 0};
}

absl::StatusOr<NewestMetrics> LocalMetricStore::FindNewest(uint64_t job) const {
  NewestMetrics newest;
  LocalMetricReader reader(paths_, job);
  v1::MetricBatch batch;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader.Next(batch));
    if (!found) return newest;
    newest.Take(batch);
  }
}

void LocalMetricStore::Warm(uint64_t job) {
  if (const std::optional<NewestMetrics> saved = LoadNewest(job)) return newest_.Keep(job, *saved);
  const absl::StatusOr<NewestMetrics> found = FindNewest(job);
  if (found.ok()) return newest_.Keep(job, *found);
  common::LogWarning(StrCat("newest metrics are not known job=", job, " reason=\"",
                            std::string(found.status().message()), "\""));
}

void LocalMetricStore::Relearn(uint64_t job) {
  const absl::StatusOr<NewestMetrics> found = FindNewest(job);
  if (found.ok()) newest_.Replace(job, *found);  // else those that are known may be right
}

void LocalMetricStore::Remove(uint64_t job) {
  {
    std::lock_guard lock(mutex_);
    removed_.insert(job);
  }
  newest_.Forget(job);
  watchers_.Forget(job);
  if (const absl::Status status = common::RemoveTree(paths_.MetricDirectory(job)); !status.ok()) {
    common::LogWarning(StrCat("metrics of a removed job stay on disk job=", job, " reason=\"",
                              std::string(status.message()), "\""));
  }
}

}  // namespace muster::coordinator
