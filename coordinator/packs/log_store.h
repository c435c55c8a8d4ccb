// Logs in packs: a lane per attempt and node, a stream per rank and output. A chunk is acknowledged once its pack is
// recorded; followers see it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/base/rate_limited_log.h"
#include "coordinator/packs/packs.h"
#include "coordinator/store_parts/log_progress.h"
#include "coordinator/store_parts/segment_logs.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

inline PackStream StreamOf(const LogKey& key) {
  return {key.rank, static_cast<uint32_t>(key.stream)};
}
PackLane LogLane(uint64_t job, uint32_t attempt, const std::string& node);

// By sender.
using OwedBytes = std::map<std::weak_ptr<LogUploader>, size_t, std::owner_less<>>;

// `before`: output that came to this data directory before there was an object store.
class PackLogReader final : public SegmentLogReader {
 public:
  PackLogReader(const PackReader& packs, const LogReader& before, Paths paths)
      : packs_(packs), before_(before), paths_(std::move(paths)) {}

  absl::StatusOr<std::vector<LogKey>> Streams(uint64_t job,
                                              std::optional<uint32_t> attempt) const override;

 private:
  std::shared_ptr<const StreamSegments> SegmentsOf(const LogKey& key) const override;

  const PackReader& packs_;
  const LogReader& before_;
  const Paths paths_;
};

class PackLogStore final : public LogStore {
 public:
  // `before`: another store's reader, of the data directory.
  PackLogStore(std::shared_ptr<Packs> packs, std::unique_ptr<const LogReader> before,
               const Paths& paths);
  ~PackLogStore() override { Stop(); }
  // Of both stores: they share the writer.
  void Stop() override { packs_->writer.Stop(); }
  void Settle() override { packs_->writer.Settle(); }

  void Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  const LogReader& Reader() const override { return reader_; }
  void Remove(uint64_t job) override;
  std::vector<uint64_t> Jobs() const override;
  void KeepAtMost(uint64_t job, uint64_t bytes) override { packs_->writer.KeepAtMost(job, bytes); }
  uint64_t StoredBytes(uint64_t job) const override;
  bool IsShared() const override { return true; }
  size_t UnendedStreams() const override { return progress_.Unended(); }
  void GiveUpRest(uint64_t job) override { progress_.GiveUpRest(job); }
  bool IsRestGivenUp(uint64_t job) const override { return progress_.IsRestGivenUp(job); }

 private:
  void Write(PackWriter::Lane& lane, const v1::LogChunk& chunk,
             const std::shared_ptr<LogUploader>& uploader);
  void Refuse(const v1::LogChunk& chunk, LogUploader& uploader);
  absl::StatusOr<PackWriter::LaneStart> Open(const PackLane& lane);
  // Where the attempt's streams ended in the data directory.
  absl::Status AddBefore(const PackLane& lane, std::map<PackStream, StreamEnd>& ends) const;

  const std::shared_ptr<Packs> packs_;
  const std::unique_ptr<const LogReader> before_;
  const Paths paths_;
  const PackLogReader reader_;
  // The writer's thread: what is not recorded yet, by who sent it.
  OwedBytes owed_;
  RateLimitedLog refusals_;
  JobWatchers<LogNews> watchers_;
  LogProgress progress_;
};

}  // namespace muster::coordinator
