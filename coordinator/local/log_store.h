// Logs as files: raw bytes and an index per stream. Owns one writer thread; nobody else writes
// below logs/. A disk without room and a process without descriptors make it wait, a disk error
// ends the daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/local/store_queue.h"
#include "coordinator/paths.h"
#include "coordinator/said_rarely.h"
#include "coordinator/stores/log_progress.h"

namespace muster::coordinator {

class LocalLogStore final : public LogStore {
 public:
  static constexpr size_t kKnownStreamsMax = 100'000;  // whose files' ends are in memory
  static constexpr size_t kSyncBytes = 1 << 20;
  static constexpr int kSyncDelayMs = 200;
  static constexpr int kSyncDelayAtEndMs = 5;

  // `failed` is told once, on the writer's thread, when the disk cannot be trusted any more.
  // `open_max`: streams whose files are open at once.
  LocalLogStore(const Paths& paths, std::function<void(const absl::Status&)> failed,
                size_t open_max = 256);
  ~LocalLogStore() override { Stop(); }
  void Stop() override;

  void Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  const LogReader& Reader() const override { return reader_; }
  void Remove(uint64_t job) override;
  size_t UnendedStreams() const override { return progress_.Unended(); }
  void GiveUpRest(uint64_t job) override { progress_.GiveUpRest(job); }
  bool IsRestGivenUp(uint64_t job) const override { return progress_.IsRestGivenUp(job); }

 private:
  struct Queued {
    v1::LogChunk chunk;
    std::shared_ptr<LogUploader> uploader;
  };
  struct Stream {
    LogStreamFile file;
    std::weak_ptr<LogUploader> uploader;
    uint64_t used = 0;
  };

  void Run();
  void Write(Queued& queued);
  void Refuse(Queued& queued);
  void Fail(const absl::Status& status);
  void Wrote(const LogKey& key, Stream& stream, const v1::LogChunk& chunk);
  absl::StatusOr<Stream*> StreamOf(const LogKey& key, bool* is_new);
  // Opens the stream's files with descriptors of others if need be.
  absl::Status OpenStream(const LogKey& key, bool* is_new);
  void Sync();
  // Closes the files that were not used for longest until fewer than `most` are open.
  void CloseIdle(size_t most);
  void ForgetClosed();

  // Set once.
  const Paths paths_;
  const std::function<void(const absl::Status&)> failed_;
  const size_t open_max_;
  const LocalLogReader reader_;

  // The writer's thread.
  std::map<LogKey, Stream> streams_;
  std::map<uint64_t, LogKey> open_;  // those with open files, by their last use
  std::set<LogKey> dirty_;
  size_t dirty_bytes_ = 0;
  int64_t sync_due_ms_ = 0;  // 0: nothing to sync
  uint64_t uses_ = 0;
  bool broken_ = false;
  SaidRarely refusals_;

  StoreQueue<Queued> queue_{"logs"};
  JobWatchers<bool> watchers_;
  LogProgress progress_;
  std::thread thread_;
};

}  // namespace muster::coordinator
