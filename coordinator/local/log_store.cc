#include "coordinator/local/log_store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/stores/log_pieces.h"

namespace muster::coordinator {
namespace {

// From so many dirty streams on, one syncfs is cheaper than two fdatasync each.
constexpr size_t kSyncAllFrom = 8;

}  // namespace

LocalLogStore::LocalLogStore(const Paths& paths, std::function<void(const absl::Status&)> failed,
                             size_t open_max)
    : paths_(paths),
      failed_(std::move(failed)),
      open_max_(std::max<size_t>(open_max, 1)),
      reader_(paths),
      thread_([this] { Run(); }) {}

void LocalLogStore::Stop() {
  queue_.Stop();
  if (thread_.joinable()) thread_.join();
}

void LocalLogStore::Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) {
  queue_.Push({std::move(chunk), std::move(uploader)});
}

WatchToken LocalLogStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

void LocalLogStore::Remove(uint64_t job) {
  progress_.Remove(job);
  watchers_.Forget(job);
  if (const absl::Status status = common::RemoveTree(paths_.LogDirectory(job)); !status.ok()) {
    common::LogWarning(common::StrCat("logs of a removed job stay on disk job=", job, " reason=\"",
                                      std::string(status.message()), "\""));
  }
}

void LocalLogStore::Run() {
  std::vector<Queued> batch;
  while (queue_.Take(batch, sync_due_ms_)) {
    for (Queued& queued : batch) {
      if (!broken_) Write(queued);
      if (dirty_bytes_ >= kSyncBytes) Sync();
    }
    batch.clear();
    if (sync_due_ms_ != 0 && SteadyMs() >= sync_due_ms_) Sync();
  }
  Sync();
}

void LocalLogStore::Write(Queued& queued) {
  const v1::LogChunk& chunk = queued.chunk;
  const LogKey key = KeyOf(chunk);
  if (progress_.IsRemoved(key.job)) return Refuse(queued);
  bool is_new = false;
  const absl::StatusOr<Stream*> stream = StreamOf(key, &is_new);
  if (broken_) return;
  absl::Status status = stream.status();
  if (status.ok()) {
    status = queue_.Patiently([&] { return (*stream)->file.Append(chunk); });
  }
  if (absl::IsOutOfRange(status)) {
    refusals_.Warn({.code = "JC1611",
                    .what = common::StrCat("the output of job ", key.job, " attempt ", key.attempt,
                                           " rank ", key.rank, " is refused"),
                    .why = std::string(status.message()),
                    .fix = "look for a damaged spool on its node"});
    return Refuse(queued);
  }
  if (!status.ok()) return Fail(status);
  (*stream)->uploader = queued.uploader;
  queued.uploader->Consumed(chunk.ByteSizeLong());
  Wrote(key, **stream, chunk);
  watchers_.Notify(key.job, is_new);
}

void LocalLogStore::Refuse(Queued& queued) {
  v1::LogAck refused = AckFor(KeyOf(queued.chunk));
  refused.set_refused(true);
  queued.uploader->Acknowledge(refused);
  queued.uploader->Consumed(queued.chunk.ByteSizeLong());
}

void LocalLogStore::Fail(const absl::Status& status) {
  broken_ = true;
  // A shortage gets here only when the daemon ends: the worker keeps the bytes.
  if (IsShortage(status)) return;
  failed_(common::MakeProblem(absl::StatusCode::kInternal, {.code = "JC1602",
                                                            .what = "cannot keep logs",
                                                            .why = std::string(status.message()),
                                                            .fix = "check the disk"}));
}

void LocalLogStore::Wrote(const LogKey& key, Stream& stream, const v1::LogChunk& chunk) {
  // Also for a repeat: its sender waits for an answer.
  dirty_.insert(key);
  dirty_bytes_ += chunk.data().size();
  const int64_t due =
      SteadyMs() + (chunk.end() || !stream.file.Dirty() ? kSyncDelayAtEndMs : kSyncDelayMs);
  sync_due_ms_ = sync_due_ms_ == 0 ? due : std::min(sync_due_ms_, due);
  progress_.Wrote(key, stream.file.Ended());
}

absl::StatusOr<LocalLogStore::Stream*> LocalLogStore::StreamOf(const LogKey& key, bool* is_new) {
  const auto known = streams_.find(key);
  if (known != streams_.end() && known->second.file.IsOpen()) {
    open_.erase(known->second.used);
  } else {
    CloseIdle(open_max_);
    RETURN_IF_ERROR(queue_.Patiently([&] { return OpenStream(key, is_new); }));
  }
  Stream& stream = streams_.at(key);
  stream.used = ++uses_;
  open_[stream.used] = key;
  return &stream;
}

absl::Status LocalLogStore::OpenStream(const LogKey& key, bool* is_new) {
  // Somebody else took the last descriptors: better few open files than none.
  const auto with_fewer = [this](const auto& open) {
    auto result = open();
    while (absl::IsUnavailable(result) && !open_.empty()) {
      CloseIdle(open_.size());
      if (broken_) return result;
      result = open();
    }
    return result;
  };
  const auto known = streams_.find(key);
  if (known != streams_.end()) {
    const absl::Status status = with_fewer([&] { return known->second.file.Reopen(); });
    if (!absl::IsNotFound(status)) return status;
    streams_.erase(key);
  }
  if (streams_.size() >= kKnownStreamsMax) ForgetClosed();
  *is_new = true;
  return with_fewer([&]() -> absl::Status {
    ASSIGN_OR_RETURN(LogStreamFile file, LogStreamFile::Open(paths_, key));
    streams_[key].file = std::move(file);
    return absl::OkStatus();
  });
}

void LocalLogStore::Sync() {
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
    // What a sync could not write may be gone from memory too, so that even a full disk ends it
    // here.
    return Fail(absl::InternalError(status.message()));
  }
  for (const LogKey& key : dirty_) {
    const Stream& stream = streams_.at(key);
    if (!stream.file.Ended()) continue;
    open_.erase(stream.used);
    streams_.erase(key);
  }
  dirty_.clear();
}

void LocalLogStore::CloseIdle(size_t most) {
  while (open_.size() >= most && !open_.empty()) {
    auto oldest = open_.begin();
    while (oldest != open_.end() && dirty_.contains(oldest->second)) ++oldest;
    if (oldest != open_.end()) {
      streams_.at(oldest->second).file.Close();
      open_.erase(oldest);
      continue;
    }
    Sync();
    if (broken_) return;
  }
}

void LocalLogStore::ForgetClosed() {
  std::erase_if(streams_, [](const auto& known) { return !known.second.file.IsOpen(); });
}

}  // namespace muster::coordinator
