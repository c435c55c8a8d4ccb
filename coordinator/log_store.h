// Where ranks' output is kept: appends from the workers' bulk streams, and a notification for those
// who follow. Owns one writer thread; nobody else writes below logs/. A full disk makes it wait
// (the workers' spools hold the bytes), a disk error ends the daemon.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "coordinator/log_format.h"
#include "coordinator/log_stream_file.h"
#include "coordinator/paths.h"
#include "coordinator/watch_hub.h"

namespace muster::coordinator {

// The sender's end of one bulk stream. Called on the writer's thread; must only enqueue.
class LogUploader {
 public:
  virtual ~LogUploader() = default;
  // So many bytes of chunks left the queue: more may be read.
  virtual void Consumed(size_t bytes) = 0;
  virtual void Acknowledge(const v1::LogAck& ack) = 0;
};

class LogStore {
 public:
  static constexpr size_t kOpenFilesMax = 256;
  static constexpr size_t kSyncBytes = 1 << 20;
  static constexpr int kSyncDelayMs = 200;
  static constexpr int kSyncDelayAtEndMs = 5;

  // `failed` is told once, on the writer's thread, when the disk cannot be trusted any more.
  LogStore(const Paths& paths, std::function<void(const absl::Status&)> failed);
  ~LogStore() { Stop(); }
  // Syncs what was taken, acknowledges it, ends the thread.
  void Stop();

  // Any thread; never blocks. The caller bounds what it has under way by Consumed.
  void Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader);
  // Called after bytes of the job became readable; `new_stream`: of a stream that was not there
  // before.
  using Watcher = std::function<void(bool new_stream)>;
  WatchToken Watch(uint64_t job, Watcher watcher);
  // Deletes the job's logs; later chunks of it are refused. Blocks on the disk.
  void Remove(uint64_t job);
  // Streams that were begun and have not said `end`.
  size_t UnendedStreams();

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
  // False: stopping. Waits for chunks, or until a sync is due.
  bool Take(std::vector<Queued>& batch);
  void Write(Queued& queued);
  absl::StatusOr<Stream*> StreamOf(const LogKey& key, bool* is_new);
  absl::Status AppendPatiently(Stream& stream, const v1::LogChunk& chunk);
  void Sync();
  void Notify(uint64_t job, bool new_stream);
  void CloseIdle();
  bool IsRemoved(uint64_t job);

  // Set once.
  const Paths paths_;
  const std::function<void(const absl::Status&)> failed_;

  // The writer's thread.
  std::map<LogKey, Stream> streams_;
  std::set<LogKey> dirty_;
  size_t dirty_bytes_ = 0;
  int64_t sync_due_ms_ = 0;  // 0: nothing to sync
  uint64_t uses_ = 0;
  bool broken_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<Queued> queue_;
  std::unordered_map<uint64_t, std::vector<std::weak_ptr<Watcher>>> watchers_;
  std::set<uint64_t> removed_;
  std::set<LogKey> unended_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::coordinator
