#include "tests/delivery/log_store_model.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "coordinator/local/log_store.h"

namespace muster::delivery {
namespace {

using coordinator::LocalLogStore;
using coordinator::LogKey;
using coordinator::LogStreamFile;

uint64_t SizeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

std::string Name(const LogKey& key) {
  return "rank " + std::to_string(key.rank) + " stream " + std::to_string(key.stream);
}

}  // namespace

void LogStoreModel::Append(const v1::LogChunk& chunk, uint64_t link) {
  const LogKey key{chunk.job(), chunk.attempt(), chunk.rank(), chunk.stream()};
  auto found = open_.find(key);
  if (found == open_.end()) {
    auto file = LogStreamFile::Open(paths_, key);
    Expect(file.ok(), std::string(file.status().message()));
    found = open_.emplace(key, *std::move(file)).first;
    durable_[key];
  }
  LogStreamFile& file = found->second;
  const absl::Status status = file.Append(chunk);
  Expect(status.ok(), std::string(status.message()));
  dirty_[key].insert(link);
  dirty_bytes_ += chunk.data().size();
  if (dirty_bytes_ >= LocalLogStore::kSyncBytes) return Sync();
  SyncAfter(chunk.end() || !file.File().Dirty() ? LocalLogStore::kSyncDelayAtEndMs
                                                : LocalLogStore::kSyncDelayMs);
}

void LogStoreModel::SyncAfter(int64_t delay_ms) {
  const int64_t due = queue_.now_ms() + delay_ms;
  if (sync_due_ms_ != 0 && sync_due_ms_ <= due) return;
  sync_due_ms_ = due;
  queue_.After(delay_ms, [this, due, life = life_] {
    if (life == life_ && sync_due_ms_ == due) Sync();
  });
}

void LogStoreModel::Sync() {
  sync_due_ms_ = 0;
  dirty_bytes_ = 0;
  for (const auto& [key, links] : dirty_) {
    LogStreamFile& file = open_.at(key);
    if (file.File().Dirty()) Expect(file.File().Sync().ok(), "cannot sync");
    durable_[key] = {file.Durable(), file.Ended(), LastFile(key), SizeOf(LastFile(key))};
    v1::LogAck ack;
    ack.set_job(key.job);
    ack.set_attempt(key.attempt);
    ack.set_rank(key.rank);
    ack.set_stream(key.stream);
    ack.set_durable_offset(file.Durable() + (file.Ended() ? 1 : 0));
    for (const uint64_t link : links) acknowledge_(link, ack);
  }
  for (const auto& [key, links] : dirty_) {
    if (open_.at(key).Ended()) open_.erase(key);
  }
  dirty_.clear();
}

void LogStoreModel::Crash(bool power) {
  ++life_;
  sync_due_ms_ = 0;
  dirty_bytes_ = 0;
  open_.clear();
  dirty_.clear();
  if (!power) return;
  for (const auto& [key, durable] : durable_) LoseUnsynced(key, durable);
}

void LogStoreModel::LoseUnsynced(const LogKey& key, const Durable& durable) {
  const std::string path = LastFile(key);
  const uint64_t from = path == durable.file ? durable.file_bytes : 0;
  const uint64_t size = SizeOf(path);
  if (size <= from) return;
  const auto cut = static_cast<off_t>(queue_.Draw(static_cast<int64_t>(from), size));
  Expect(truncate(path.c_str(), cut) == 0, "cannot truncate");
  // The size may reach the disk before the bytes, and later bytes before earlier ones: zeros then.
  if (queue_.Chance(0.3)) Expect(truncate(path.c_str(), static_cast<off_t>(size)) == 0, "size");
  if (!queue_.Chance(0.5)) return;
  const auto hole = static_cast<uint64_t>(queue_.Draw(static_cast<int64_t>(from), size));
  const std::string zeros(std::min<uint64_t>(size - hole, 4'096), '\0');
  const int fd = open(path.c_str(), O_WRONLY);
  Expect(pwrite(fd, zeros.data(), zeros.size(), static_cast<off_t>(hole)) >= 0, "hole");
  close(fd);
}

std::string LogStoreModel::LastFile(const LogKey& key) const {
  const coordinator::SegmentFiles files(paths_.LogStream(key));
  const auto segments = files.List();
  return segments.ok() && !segments->empty() ? files.At(segments->back()) : files.At(0);
}

void LogStoreModel::Reopen() {
  for (const auto& [key, durable] : durable_) {
    const auto file = LogStreamFile::Open(paths_, key);
    Expect(file.ok(), std::string(file.status().message()));
    Expect(file->Written() >= durable.written && (file->Ended() || !durable.ended),
           Name(key) + " was acknowledged to " + std::to_string(durable.written) +
               (durable.ended ? " and its end" : "") + ", the reopened store has " +
               std::to_string(file->Written()));
  }
}

bool LogStoreModel::EndIsDurable(const LogKey& key, uint64_t end) const {
  const auto found = durable_.find(key);
  return found != durable_.end() && found->second.ended && found->second.written == end;
}

Content LogStoreModel::Read(const LogKey& key, bool has_end) const {
  if (!has_end) return {};  // the store's own tests read growing files
  return ReadStream(coordinator::LocalLogReader(paths_), key, true);
}

}  // namespace muster::delivery
