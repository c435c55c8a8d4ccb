#include "coordinator/local/log_store.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/store_parts/log_pieces.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

std::string Named(const LogKey& key) {
  return StrCat("the output of job ", key.job, " attempt ", key.attempt, " rank ", key.rank);
}

}  // namespace

LocalLogStore::LocalLogStore(const Paths& paths, DiskUse use)
    : paths_(paths),
      reader_(paths),
      queue_("logs", use.gate),
      streams_({.open = [this](const LogKey& key) { return Open(key); },
                .patiently = [this](const auto& attempt) { return queue_.Patiently(attempt); },
                .synced = [this](const LogKey& key, Stream& stream) { return Synced(key, stream); },
                .failed = [this](const LogKey& key, Stream* stream,
                                 const absl::Status& why) { StreamFailed(key, stream, why); }},
               use.open_max, kKnownStreamsMax),
      failing_(use.failures),
      quota_(paths, use.quota_bytes),
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
  quota_.Forget(job);
  if (const absl::Status status = common::RemoveTree(paths_.LogDirectory(job)); !status.ok()) {
    common::LogWarning(StrCat("logs of a removed job stay on disk job=", job, " reason=\"",
                              std::string(status.message()), "\""));
  }
}

uint64_t LocalLogStore::StoredBytes(uint64_t job) const {
  return BytesBelow(paths_.Root(), paths_.BelowRoot(paths_.LogDirectory(job)));
}

void LocalLogStore::Run() {
  std::vector<Queued> batch;
  while (queue_.Take(batch, DueMs())) {
    for (Queued& queued : batch) {
      if (!is_leaving_) Write(queued);
      if (streams_.DirtyBytes() >= kSyncBytes) streams_.Sync();
    }
    batch.clear();
    if (streams_.DueMs() != 0 && SteadyMs() >= streams_.DueMs()) streams_.Sync();
    for (const auto& uploader : failing_.TakeDue(SteadyMs())) uploader->SendAgain();
  }
  streams_.Sync();
}

void LocalLogStore::Write(Queued& queued) {
  const v1::LogChunk& chunk = queued.chunk;
  const LogKey key = KeyOf(chunk);
  if (progress_.IsRemoved(key.job)) return Refuse(queued);
  if (!failing_.Takes(key, queued.uploader, SteadyMs())) {
    return queued.uploader->Consumed(chunk.ByteSizeLong());
  }
  bool is_new = false;
  const absl::StatusOr<Stream*> stream = streams_.Use(key, &is_new);
  absl::Status status = stream.status();
  if (status.ok()) {
    const uint64_t segment_bytes = quota_.SegmentBytes(key.job);
    status = queue_.Patiently([&] { return (*stream)->log.Append(chunk, segment_bytes); });
  }
  if (absl::IsOutOfRange(status)) {
    refusals_.Warn({.code = "JC1611",
                    .what = StrCat(Named(key), " is refused"),
                    .why = std::string(status.message()),
                    .fix = "look for a damaged spool on its node"});
    return Refuse(queued);
  }
  if (!status.ok()) return Fail(queued, status);
  (*stream)->uploaders.insert(queued.uploader);
  queued.uploader->Consumed(chunk.ByteSizeLong());
  Answer(key, **stream, chunk);
  watchers_.Notify(key.job, LogNews{key, is_new});
  HeedQuota(key.job, chunk.data().size());
}

// A job that cannot be brought below its quota continues: the disk may still have room.
void LocalLogStore::HeedQuota(uint64_t job, uint64_t bytes) {
  const absl::StatusOr<uint64_t> removed = quota_.Wrote(job, bytes);
  if (removed.ok() && *removed == 0) return;
  const std::string of_job = StrCat("the output of job ", job, " has reached its quota: ");
  if (!removed.ok()) {
    return removals_.Warn({.code = "JC1624",
                           .what = StrCat(of_job, "nothing could be removed"),
                           .why = std::string(removed.status().message()),
                           .fix = "check the disk; jobctl rm removes finished jobs"});
  }
  common::LogInfo(StrCat(of_job, "its oldest ", common::HumanBytes(*removed), " are removed"));
}

void LocalLogStore::Refuse(Queued& queued) {
  v1::LogAck refused = AckFor(KeyOf(queued.chunk));
  refused.set_refused(true);
  queued.uploader->Acknowledge(refused);
  queued.uploader->Consumed(queued.chunk.ByteSizeLong());
}

void LocalLogStore::Fail(Queued& queued, const absl::Status& status) {
  // A shortage gets here only when the daemon stops; the worker still has the bytes.
  is_leaving_ = IsShortage(status);
  if (is_leaving_) return;
  const LogKey key = KeyOf(queued.chunk);
  streams_.Fail(key, status);
  failing_.Owe(key, queued.uploader);
  queued.uploader->Consumed(queued.chunk.ByteSizeLong());
}

void LocalLogStore::StreamFailed(const LogKey& key, Stream* stream, const absl::Status& why) {
  const int64_t pause_ms = failing_.Failed(key, SteadyMs());
  if (stream != nullptr) {
    for (const auto& uploader : stream->uploaders) failing_.Owe(key, uploader);
    stream->uploaders.clear();
    if (!progress_.IsRemoved(key.job)) progress_.Wrote(key, false);
  }
  const common::Problem problem = FileFailed(Named(key), why, pause_ms);
  failing_.Tell({key.job, key.attempt, problem}, pause_ms);
  refusals_.Warn(problem);
}

void LocalLogStore::Answer(const LogKey& key, Stream& stream, const v1::LogChunk& chunk) {
  const bool at_once = chunk.end() || !stream.File().Dirty();
  streams_.Touch(key, chunk.data().size(),
                 SteadyMs() + (at_once ? kSyncDelayAtEndMs : kSyncDelayMs));
  progress_.Wrote(key, stream.log.Ended());
}

absl::StatusOr<LocalLogStore::Stream> LocalLogStore::Open(const LogKey& key) {
  ASSIGN_OR_RETURN(LogStreamFile log, LogStreamFile::Open(paths_, key));
  for (const LostRange& lost : log.File().Lost()) {
    refusals_.Warn({.code = "JC1620",
                    .what = StrCat(lost.until - lost.from, " bytes of ", Named(key),
                                   " are damaged on the disk"),
                    .why = StrCat("checksums do not match from offset ", lost.from, " on"),
                    .fix = "none needed if its worker still has them; otherwise check the disk and "
                           "run muster-coordinator check"});
  }
  quota_.Opened(key.job);
  return Stream{std::move(log), {}};
}

bool LocalLogStore::Synced(const LogKey& key, Stream& stream) {
  v1::LogAck ack = AckFor(key);
  // The end counts as one more byte, so that a repeated acknowledgement of the last bytes does not
  // acknowledge it.
  ack.set_durable_offset(stream.log.Durable() + (stream.log.Ended() ? 1 : 0));
  for (const auto& uploader : stream.uploaders) {
    if (const auto alive = uploader.lock()) alive->Acknowledge(ack);
  }
  stream.uploaders.clear();
  return stream.log.Ended();
}

}  // namespace muster::coordinator
