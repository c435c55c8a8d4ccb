// Logs as segments (coordinator/segments), one stream per rank and output. Owns one writer thread;
// nothing else writes below logs/. The thread waits while the disk is full or the process is out of
// descriptors; if a stream's file fails, only that stream waits, in its worker's spool.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "coordinator/base/rate_limited_log.h"
#include "coordinator/local/failing_streams.h"
#include "coordinator/local/log_quota.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/local/open_streams.h"
#include "coordinator/store_parts/log_progress.h"
#include "coordinator/store_parts/store_queue.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class LocalLogStore final : public LogStore {
 public:
  static constexpr size_t kKnownStreamsMax = 100'000;  // whose ends are kept in memory
  static constexpr size_t kSyncBytes = 1 << 20;
  static constexpr int kSyncDelayMs = 200;
  static constexpr int kSyncDelayAtEndMs = 5;

  explicit LocalLogStore(const Paths& paths, DiskUse use = {});
  ~LocalLogStore() override { Stop(); }
  void Stop() override;

  void Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  const LogReader& Reader() const override { return reader_; }
  void Remove(uint64_t job) override;
  std::vector<uint64_t> Jobs() const override { return JobsBelow(paths_.LogRoot()); }
  void KeepAtMost(uint64_t job, uint64_t bytes) override { quota_.KeepAtMost(job, bytes); }
  uint64_t StoredBytes(uint64_t job) const override;
  size_t UnendedStreams() const override { return progress_.Unended(); }
  void GiveUpRest(uint64_t job) override { progress_.GiveUpRest(job); }
  bool IsRestGivenUp(uint64_t job) const override { return progress_.IsRestGivenUp(job); }

 private:
  struct Queued {
    v1::LogChunk chunk;
    std::shared_ptr<LogUploader> uploader;
  };
  struct Stream {
    LogStreamFile log;
    // The senders that wait for the next sync. There may be several: chunks in flight on a broken
    // connection may arrive after the first chunk of the next one.
    std::set<std::weak_ptr<LogUploader>, std::owner_less<>> uploaders;
    SegmentWriter& File() { return log.File(); }
  };

  void Run();
  void Write(Queued& queued);
  void Refuse(Queued& queued);
  // Handles an entry that could not be written.
  void Fail(Queued& queued, const absl::Status& status);
  // The bytes were written, or were already known: the sender waits for an acknowledgement.
  void Answer(const LogKey& key, Stream& stream, const v1::LogChunk& chunk);
  void HeedQuota(uint64_t job, uint64_t bytes);
  absl::StatusOr<Stream> Open(const LogKey& key);
  bool Synced(const LogKey& key, Stream& stream);
  void StreamFailed(const LogKey& key, Stream* stream, const absl::Status& why);
  int64_t DueMs() const { return EarlierDue(streams_.DueMs(), failing_.DueMs()); }

  // Set once.
  const Paths paths_;
  const LocalLogReader reader_;

  StoreQueue<Queued> queue_;
  // The writer's thread.
  OpenStreams<LogKey, Stream> streams_;
  FailingStreams<LogKey, LogUploader> failing_;
  bool is_leaving_ = false;  // stopping without room; the workers still have what is not synced
  RateLimitedLog refusals_;
  RateLimitedLog removals_;
  LogQuota quota_;

  JobWatchers<LogNews> watchers_;
  LogProgress progress_;
  std::thread thread_;
};

}  // namespace muster::coordinator
