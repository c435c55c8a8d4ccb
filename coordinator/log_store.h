// Where ranks' output is kept: appends from the workers' bulk streams, and a notification for those
// who follow. Owns one writer thread; nobody else writes below logs/. A disk without room and a
// process without descriptors make it wait (the workers' spools hold the bytes), a disk error ends
// the daemon, an offset that no file can hold ends that stream alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "coordinator/job_watchers.h"
#include "coordinator/log_format.h"
#include "coordinator/log_stream_file.h"
#include "coordinator/paths.h"
#include "coordinator/said_rarely.h"
#include "coordinator/store_queue.h"

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
  static constexpr size_t kKnownStreamsMax = 100'000;  // whose files' ends are in memory
  static constexpr size_t kSyncBytes = 1 << 20;
  static constexpr int kSyncDelayMs = 200;
  static constexpr int kSyncDelayAtEndMs = 5;
  static constexpr size_t kGivenUpMax = 100'000;

  // `failed` is told once, on the writer's thread, when the disk cannot be trusted any more.
  // `open_max`: streams whose files are open at once.
  LogStore(const Paths& paths, std::function<void(const absl::Status&)> failed,
           size_t open_max = 256);
  ~LogStore() { Stop(); }
  // Syncs what was taken, acknowledges it, ends the thread.
  void Stop();

  // Any thread; never blocks. The caller bounds what it has under way by Consumed.
  void Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader);
  // Called after bytes of the job became readable; `new_stream`: of a stream that was not there
  // before.
  using Watcher = JobWatchers<bool>::Watcher;
  WatchToken Watch(uint64_t job, Watcher watcher);
  // Deletes the job's logs; later chunks of it are refused. Blocks on the disk.
  void Remove(uint64_t job);
  // Streams that were begun and have not said `end`.
  size_t UnendedStreams();
  // A reader of a finished job has waited for the rest of its output in vain; until more of it
  // comes, others need not wait.
  void GiveUpRest(uint64_t job);
  bool IsRestGivenUp(uint64_t job);

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
  bool IsRemoved(uint64_t job);

  // Set once.
  const Paths paths_;
  const std::function<void(const absl::Status&)> failed_;
  const size_t open_max_;

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
  std::mutex mutex_;  // guards what follows
  std::set<uint64_t> removed_;
  std::set<LogKey> unended_;
  std::unordered_set<uint64_t> given_up_;
  std::thread thread_;
};

}  // namespace muster::coordinator
