// Logs in memory. What was appended is durable at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/base/work_pool.h"
#include "coordinator/store_parts/log_progress.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

struct MemoryLogStream {
  std::string bytes;  // lost ones as zeros
  std::vector<LogPiece> pieces;
};

// Outlives the stores that are opened on it.
struct MemoryLogs {
  std::mutex mutex;  // guards what follows
  std::map<LogKey, MemoryLogStream> streams;

  // Under the mutex. One that has not begun is empty.
  MemoryLogStream Find(const LogKey& key) const {
    const auto found = streams.find(key);
    return found == streams.end() ? MemoryLogStream() : found->second;
  }
};

class MemoryLogReader final : public LogReader {
 public:
  explicit MemoryLogReader(std::shared_ptr<MemoryLogs> logs) : logs_(std::move(logs)) {}

  absl::StatusOr<std::vector<LogKey>> Streams(uint64_t job,
                                              std::optional<uint32_t> attempt) const override;
  std::unique_ptr<LogCursor> Open(const LogKey& key, uint64_t offset,
                                  size_t ahead = 0) const override;
  std::unique_ptr<LogBackwards> OpenAtEnd(const LogKey& key) const override;
  absl::StatusOr<uint64_t> OffsetSince(const LogKey& key, int64_t time_us) const override;
  absl::StatusOr<uint64_t> OffsetOfLastLines(const LogKey& key, uint64_t lines) const override;

 private:
  const std::shared_ptr<MemoryLogs> logs_;
};

class MemoryLogStore final : public LogStore {
 public:
  explicit MemoryLogStore(std::shared_ptr<MemoryLogs> logs) : logs_(logs), reader_(logs) {}
  ~MemoryLogStore() override { Stop(); }
  void Stop() override { thread_.Stop(); }

  void Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  const LogReader& Reader() const override { return reader_; }
  void Remove(uint64_t job) override;
  std::vector<uint64_t> Jobs() const override { return {}; }
  void KeepAtMost(uint64_t, uint64_t) override {}
  uint64_t StoredBytes(uint64_t) const override { return 0; }
  size_t UnendedStreams() const override { return progress_.Unended(); }
  void GiveUpRest(uint64_t job) override { progress_.GiveUpRest(job); }
  bool IsRestGivenUp(uint64_t job) const override { return progress_.IsRestGivenUp(job); }

 private:
  void Write(const v1::LogChunk& chunk, LogUploader& uploader);

  const std::shared_ptr<MemoryLogs> logs_;
  const MemoryLogReader reader_;
  JobWatchers<LogNews> watchers_;
  LogProgress progress_;
  WorkPool thread_{1};
};

}  // namespace muster::coordinator
