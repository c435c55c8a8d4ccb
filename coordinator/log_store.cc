#include "coordinator/log_store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

constexpr auto kFullDiskRetry = std::chrono::milliseconds(500);
// From so many dirty streams on, one syncfs is cheaper than two fdatasync each.
constexpr size_t kSyncAllFrom = 8;

int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

LogKey KeyOf(const v1::LogChunk& chunk) {
  return {chunk.job(), chunk.attempt(), chunk.rank(), chunk.stream()};
}

v1::LogAck AckFor(const LogKey& key) {
  v1::LogAck ack;
  ack.set_job(key.job);
  ack.set_attempt(key.attempt);
  ack.set_rank(key.rank);
  ack.set_stream(key.stream);
  return ack;
}

}  // namespace

LogStore::LogStore(const Paths& paths, std::function<void(const absl::Status&)> failed)
    : paths_(paths), failed_(std::move(failed)), thread_([this] { Run(); }) {}

void LogStore::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LogStore::Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({std::move(chunk), std::move(uploader)});
  }
  wake_.notify_all();
}

WatchToken LogStore::Watch(uint64_t job, Watcher watcher) {
  auto token = std::make_shared<Watcher>(std::move(watcher));
  std::lock_guard lock(mutex_);
  auto& watchers = watchers_[job];
  std::erase_if(watchers, [](const auto& known) { return known.expired(); });
  watchers.push_back(token);
  return token;
}

void LogStore::Remove(uint64_t job) {
  {
    std::lock_guard lock(mutex_);
    removed_.insert(job);
    std::erase_if(unended_, [&](const LogKey& key) { return key.job == job; });
    watchers_.erase(job);
  }
  if (const absl::Status status = common::RemoveTree(paths_.LogDirectory(job)); !status.ok()) {
    common::LogWarning(common::StrCat("logs of a removed job stay on disk job=", job, " reason=\"",
                                      std::string(status.message()), "\""));
  }
}

size_t LogStore::UnendedStreams() {
  std::lock_guard lock(mutex_);
  return unended_.size();
}

bool LogStore::IsRemoved(uint64_t job) {
  std::lock_guard lock(mutex_);
  return removed_.contains(job);
}

bool LogStore::Take(std::vector<Queued>& batch) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return !queue_.empty() || stopping_; };
  if (sync_due_ms_ != 0) {
    const int64_t wait_ms = std::max<int64_t>(0, sync_due_ms_ - SteadyMs());
    wake_.wait_for(lock, std::chrono::milliseconds(wait_ms), ready);
  } else {
    wake_.wait(lock, ready);
  }
  if (queue_.empty() && stopping_) return false;
  batch.swap(queue_);
  return true;
}

void LogStore::Run() {
  std::vector<Queued> batch;
  while (Take(batch)) {
    for (Queued& queued : batch) {
      if (!broken_) Write(queued);
      if (dirty_bytes_ >= kSyncBytes) Sync();
    }
    batch.clear();
    if (sync_due_ms_ != 0 && SteadyMs() >= sync_due_ms_) Sync();
  }
  Sync();
}

void LogStore::Write(Queued& queued) {
  const v1::LogChunk& chunk = queued.chunk;
  const LogKey key = KeyOf(chunk);
  const size_t bytes = chunk.ByteSizeLong();
  if (IsRemoved(key.job)) {
    v1::LogAck refused = AckFor(key);
    refused.set_refused(true);
    queued.uploader->Acknowledge(refused);
    return queued.uploader->Consumed(bytes);
  }
  bool is_new = false;
  absl::StatusOr<Stream*> stream = StreamOf(key, &is_new);
  absl::Status status = stream.status();
  if (status.ok()) status = AppendPatiently(**stream, chunk);
  if (!status.ok()) {
    broken_ = true;
    // A full disk gets here only when the daemon ends: the worker keeps the bytes.
    if (absl::IsResourceExhausted(status)) return;
    return failed_(absl::InternalError(common::StrCat(
        "[JC1602] cannot keep logs: ", std::string(status.message()), "; fix: check the disk")));
  }
  (*stream)->uploader = queued.uploader;
  queued.uploader->Consumed(bytes);
  LogStreamFile& file = (*stream)->file;
  // Also for a repeat: its sender waits for an answer.
  dirty_.insert(key);
  dirty_bytes_ += chunk.data().size();
  const int64_t due =
      SteadyMs() + (chunk.end() || !file.Dirty() ? kSyncDelayAtEndMs : kSyncDelayMs);
  sync_due_ms_ = sync_due_ms_ == 0 ? due : std::min(sync_due_ms_, due);
  {
    std::lock_guard lock(mutex_);
    if (file.Ended()) {
      unended_.erase(key);
    } else {
      unended_.insert(key);
    }
  }
  Notify(key.job, is_new);
}

absl::StatusOr<LogStore::Stream*> LogStore::StreamOf(const LogKey& key, bool* is_new) {
  const auto found = streams_.find(key);
  if (found != streams_.end()) {
    found->second.used = ++uses_;
    return &found->second;
  }
  CloseIdle();
  *is_new = true;
  while (true) {
    absl::StatusOr<LogStreamFile> file = LogStreamFile::Open(paths_, key);
    if (file.ok()) {
      Stream& stream = streams_[key];
      stream.file = *std::move(file);
      stream.used = ++uses_;
      return &stream;
    }
    if (!absl::IsResourceExhausted(file.status())) return file.status();
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kFullDiskRetry, [this] { return stopping_; })) return file.status();
  }
}

absl::Status LogStore::AppendPatiently(Stream& stream, const v1::LogChunk& chunk) {
  while (true) {
    const absl::Status status = stream.file.Append(chunk);
    if (!absl::IsResourceExhausted(status)) return status;
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kFullDiskRetry, [this] { return stopping_; })) return status;
  }
}

void LogStore::Sync() {
  sync_due_ms_ = 0;
  dirty_bytes_ = 0;
  if (dirty_.empty() || broken_) return;
  const bool all_at_once = dirty_.size() >= kSyncAllFrom;
  absl::Status status;
  if (all_at_once && syncfs(streams_.at(*dirty_.begin()).file.Descriptor()) != 0) {
    status = common::ErrnoStatus("cannot sync the logs");
  }
  for (const LogKey& key : dirty_) {
    if (!status.ok()) break;
    Stream& stream = streams_.at(key);
    if (all_at_once) {
      stream.file.MarkSynced();
    } else if (stream.file.Dirty()) {
      status = stream.file.Sync();
    }
    if (!status.ok()) break;
    if (const auto uploader = stream.uploader.lock()) {
      v1::LogAck ack = AckFor(key);
      // The end counts as one more: a repeated acknowledgement of the last bytes is not its own.
      ack.set_durable_offset(stream.file.Durable() + (stream.file.Ended() ? 1 : 0));
      uploader->Acknowledge(ack);
    }
  }
  if (!status.ok()) {
    broken_ = true;
    return failed_(absl::InternalError(common::StrCat(
        "[JC1602] cannot keep logs: ", std::string(status.message()), "; fix: check the disk")));
  }
  for (const LogKey& key : dirty_) {
    if (streams_.at(key).file.Ended()) streams_.erase(key);
  }
  dirty_.clear();
}

void LogStore::Notify(uint64_t job, bool new_stream) {
  std::vector<std::weak_ptr<Watcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    const auto found = watchers_.find(job);
    if (found == watchers_.end()) return;
    std::erase_if(found->second, [](const auto& known) { return known.expired(); });
    if (found->second.empty()) {
      watchers_.erase(found);
      return;
    }
    watchers = found->second;
  }
  for (const auto& watcher : watchers) {
    if (const auto alive = watcher.lock()) (*alive)(new_stream);
  }
}

void LogStore::CloseIdle() {
  while (streams_.size() >= kOpenFilesMax) {
    auto oldest = streams_.end();
    for (auto it = streams_.begin(); it != streams_.end(); ++it) {
      if (dirty_.contains(it->first)) continue;
      if (oldest == streams_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    if (oldest != streams_.end()) {
      streams_.erase(oldest);
    } else {
      Sync();
      if (broken_) return;
    }
  }
}

}  // namespace muster::coordinator
