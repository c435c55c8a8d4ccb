// Logs as segments (coordinator/segments), one stream of them per rank and output. Owns one writer
// thread; nobody else writes below logs/. A disk without room and a process without descriptors
// make it wait, a disk error ends the daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/local/open_streams.h"
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
    LogStreamFile log;
    std::weak_ptr<LogUploader> uploader;
    SegmentWriter& File() { return log.File(); }
  };

  void Run();
  void Write(Queued& queued);
  void Refuse(Queued& queued);
  void Fail(const absl::Status& status);
  // The bytes were written, or known already: their sender waits for an answer.
  void Answer(const LogKey& key, Stream& stream, const v1::LogChunk& chunk);
  absl::StatusOr<Stream> Open(const LogKey& key);
  bool Synced(const LogKey& key, Stream& stream);
  void Sync();

  // Set once.
  const Paths paths_;
  const std::function<void(const absl::Status&)> failed_;
  const LocalLogReader reader_;

  StoreQueue<Queued> queue_{"logs"};
  // The writer's thread.
  OpenStreams<LogKey, Stream> streams_;
  bool broken_ = false;
  SaidRarely refusals_;

  JobWatchers<LogNews> watchers_;
  LogProgress progress_;
  std::thread thread_;
};

}  // namespace muster::coordinator
