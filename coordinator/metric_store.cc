#include "coordinator/metric_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/metric_segment.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr auto kFullDiskRetry = std::chrono::milliseconds(500);

int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

v1::MetricAck AckFor(const v1::MetricBatch& batch) {
  v1::MetricAck ack;
  ack.set_job(batch.job());
  ack.set_attempt(batch.attempt());
  ack.set_rank(batch.rank());
  ack.set_source(batch.source());
  return ack;
}

}  // namespace

MetricStore::MetricStore(const Paths& paths, std::function<void(const absl::Status&)> failed)
    : paths_(paths), failed_(std::move(failed)), thread_([this] { Run(); }) {}

void MetricStore::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MetricStore::Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({std::move(batch), std::move(uploader)});
  }
  wake_.notify_all();
}

WatchToken MetricStore::Watch(uint64_t job, Watcher watcher) {
  auto token = std::make_shared<Watcher>(std::move(watcher));
  std::lock_guard lock(mutex_);
  auto& watchers = watchers_[job];
  std::erase_if(watchers, [](const auto& known) { return known.expired(); });
  watchers.push_back(token);
  return token;
}

bool MetricStore::Take(std::vector<Queued>& batch) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return !queue_.empty() || stopping_; };
  if (sync_due_ms_ != 0) {
    wake_.wait_for(lock, std::chrono::milliseconds(std::max<int64_t>(0, sync_due_ms_ - SteadyMs())),
                   ready);
  } else {
    wake_.wait(lock, ready);
  }
  if (queue_.empty() && stopping_) return false;
  batch.swap(queue_);
  return true;
}

void MetricStore::Run() {
  std::vector<Queued> batch;
  absl::Status status;
  while (Take(batch)) {
    for (Queued& queued : batch) {
      if (status.ok()) status = Write(queued);
    }
    batch.clear();
    if (status.ok() && sync_due_ms_ != 0 && SteadyMs() >= sync_due_ms_) status = Sync();
    if (status.ok()) continue;
    // A full disk gets here only when the daemon ends: the worker keeps the batches.
    if (absl::IsResourceExhausted(status)) return;
    return failed_(absl::InternalError(StrCat(
        "[JC1602] cannot keep metrics: ", std::string(status.message()), "; fix: check the disk")));
  }
  if (status.ok()) Sync().IgnoreError();
}

absl::Status MetricStore::Write(Queued& queued) {
  const v1::MetricBatch& batch = queued.batch;
  const size_t bytes = batch.ByteSizeLong();
  v1::MetricAck ack = AckFor(batch);
  {
    std::lock_guard lock(mutex_);
    if (removed_.contains(batch.job())) ack.set_refused(true);
  }
  if (ack.refused()) {
    queued.uploader->Acknowledge(ack);
    queued.uploader->Consumed(bytes);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Segment * segment, SegmentOf({batch.job(), batch.attempt()}));
  uint64_t& newest = segment->newest_seq[{batch.rank(), batch.source()}];
  if (batch.seq() > newest) {
    RETURN_IF_ERROR(AppendPatiently(*segment, EncodeMetricRecord(batch)));
    newest = batch.seq();
    Learn(batch);
    Notify(batch);
  }
  ack.set_durable_seq(newest);
  segment->acks.emplace_back(std::move(ack), queued.uploader);
  dirty_.insert({batch.job(), batch.attempt()});
  if (sync_due_ms_ == 0) sync_due_ms_ = SteadyMs() + kSyncDelayMs;
  queued.uploader->Consumed(bytes);
  return absl::OkStatus();
}

absl::StatusOr<MetricStore::Segment*> MetricStore::SegmentOf(const SegmentKey& key) {
  const auto found = segments_.find(key);
  if (found != segments_.end()) {
    found->second.used = ++uses_;
    return &found->second;
  }
  if (segments_.size() >= kOpenFilesMax) {
    RETURN_IF_ERROR(Sync());
    const auto oldest = std::min_element(
        segments_.begin(), segments_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    segments_.erase(oldest);
  }
  ASSIGN_OR_RETURN(Segment segment, OpenSegment(key));
  segment.used = ++uses_;
  return &(segments_[key] = std::move(segment));
}

// Finds where each source stands and cuts off a torn end.
absl::StatusOr<MetricStore::Segment> MetricStore::OpenSegment(const SegmentKey& key) {
  Segment segment;
  RETURN_IF_ERROR(common::MakeDirectories(paths_.MetricDirectory(key.first)));
  const std::string path = paths_.MetricFile(key.first, key.second);
  RETURN_IF_ERROR(ReadMetricSegment(
      path,
      [&](const v1::MetricBatch& batch) {
        uint64_t& newest = segment.newest_seq[{batch.rank(), batch.source()}];
        newest = std::max(newest, batch.seq());
      },
      &segment.bytes));
  segment.fd = common::UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!segment.fd.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  if (ftruncate(segment.fd.get(), static_cast<off_t>(segment.bytes)) != 0) {
    return common::ErrnoStatus(StrCat("cannot cut the torn end of ", path));
  }
  return segment;
}

absl::Status MetricStore::AppendPatiently(Segment& segment, const std::string& record) {
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t count = pwrite(segment.fd.get(), record.data() + done, record.size() - done,
                                 static_cast<off_t>(segment.bytes + done));
    if (count >= 0) {
      done += static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    const absl::Status status = common::ErrnoStatus("cannot append to a metric segment");
    if (!absl::IsResourceExhausted(status)) return status;
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kFullDiskRetry, [this] { return stopping_; })) return status;
  }
  segment.bytes += record.size();
  return absl::OkStatus();
}

absl::Status MetricStore::Sync() {
  sync_due_ms_ = 0;
  for (const SegmentKey& key : dirty_) {
    Segment& segment = segments_.at(key);
    if (fdatasync(segment.fd.get()) != 0) return common::ErrnoStatus("cannot sync metrics");
    for (const auto& [ack, uploader] : segment.acks) {
      if (const auto alive = uploader.lock()) alive->Acknowledge(ack);
    }
    segment.acks.clear();
  }
  dirty_.clear();
  return absl::OkStatus();
}

void MetricStore::Learn(const v1::MetricBatch& batch) {
  std::lock_guard lock(mutex_);
  Newest& newest = newest_[batch.job()];
  for (const v1::MetricPoint& point : batch.points()) {
    newest.step = std::max(newest.step, point.step());
    if (!absl::StrContains(point.name(), "loss")) continue;
    newest.loss = point.value();
    newest.has_loss = true;
  }
  if (newest_.size() > kNewestKept) newest_.erase(newest_.begin());
}

void MetricStore::Notify(const v1::MetricBatch& batch) {
  std::vector<std::weak_ptr<Watcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    const auto found = watchers_.find(batch.job());
    if (found == watchers_.end()) return;
    watchers = found->second;
  }
  for (const auto& watcher : watchers) {
    if (const auto alive = watcher.lock()) (*alive)(batch);
  }
}

void MetricStore::Decorate(v1::JobSummary& summary) {
  std::lock_guard lock(mutex_);
  const auto found = newest_.find(summary.id());
  if (found == newest_.end()) {
    if (summary.step() == 0 && !summary.has_loss()) summary.set_step(-1);
    return;
  }
  summary.set_step(found->second.step);
  summary.set_loss(found->second.loss);
  summary.set_has_loss(found->second.has_loss);
}

absl::StatusOr<std::vector<v1::MetricBatch>> MetricStore::Read(uint64_t job) const {
  const absl::StatusOr<std::vector<std::string>> names =
      common::ListDirectory(paths_.MetricDirectory(job));
  std::vector<v1::MetricBatch> batches;
  if (!names.ok()) return batches;
  std::vector<uint32_t> attempts;
  for (const std::string& name : *names) {
    uint32_t attempt = 0;
    absl::string_view number = name;
    if (absl::ConsumeSuffix(&number, ".mseg") && absl::SimpleAtoi(number, &attempt)) {
      attempts.push_back(attempt);
    }
  }
  std::sort(attempts.begin(), attempts.end());
  for (const uint32_t attempt : attempts) {
    uint64_t sound = 0;
    RETURN_IF_ERROR(ReadMetricSegment(
        paths_.MetricFile(job, attempt),
        [&](v1::MetricBatch batch) { batches.push_back(std::move(batch)); }, &sound));
  }
  return batches;
}

void MetricStore::Warm(uint64_t job) {
  const auto batches = Read(job);
  if (!batches.ok()) return;
  for (const v1::MetricBatch& batch : *batches) Learn(batch);
}

void MetricStore::Remove(uint64_t job) {
  {
    std::lock_guard lock(mutex_);
    removed_.insert(job);
    newest_.erase(job);
    watchers_.erase(job);
  }
  if (const absl::Status status = common::RemoveTree(paths_.MetricDirectory(job)); !status.ok()) {
    common::LogWarning(StrCat("metrics of a removed job stay on disk job=", job, " reason=\"",
                              std::string(status.message()), "\""));
  }
}

}  // namespace muster::coordinator
