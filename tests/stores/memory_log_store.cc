#include "tests/stores/memory_log_store.h"

#include <algorithm>

#include "coordinator/store_parts/log_pieces.h"

namespace muster::coordinator {
namespace {

class MemoryLogCursor final : public LogCursor {
 public:
  MemoryLogCursor(std::shared_ptr<MemoryLogs> logs, const LogKey& key, uint64_t offset)
      : logs_(std::move(logs)), key_(key), from_(offset) {}

  absl::StatusOr<std::optional<LogPiece>> Peek() override {
    std::lock_guard lock(logs_->mutex);
    const std::vector<LogPiece> pieces = logs_->Find(key_).pieces;
    for (; next_ < pieces.size(); ++next_) {
      LogPiece piece = pieces[next_];
      if (piece.offset + piece.length <= from_ && piece.offset + piece.length != 0 && !piece.end) {
        continue;
      }
      if (piece.offset < from_) {
        piece.length -=
            static_cast<uint32_t>(std::min<uint64_t>(from_ - piece.offset, piece.length));
        piece.offset = from_;
        piece.dropped = piece.damaged = 0;
      }
      return piece;
    }
    return std::nullopt;
  }

  absl::StatusOr<std::string> Read(const LogPiece& piece) override {
    std::lock_guard lock(logs_->mutex);
    const std::string bytes = logs_->Find(key_).bytes;
    return piece.offset > bytes.size() ? std::string() : bytes.substr(piece.offset, piece.length);
  }

  void Advance() override {
    const auto piece = Peek();
    if (!piece.ok() || !piece->has_value()) return;
    ended_ = ended_ || (*piece)->end;
    from_ = (*piece)->offset + (*piece)->length;
    ++next_;
  }

  bool Ended() const override { return ended_; }
  uint64_t UnreadableBytes() const override { return 0; }

 private:
  const std::shared_ptr<MemoryLogs> logs_;
  const LogKey key_;
  uint64_t from_ = 0;
  size_t next_ = 0;
  bool ended_ = false;
};

class MemoryLogBackwards final : public LogBackwards {
 public:
  explicit MemoryLogBackwards(MemoryLogStream stream) : stream_(std::move(stream)) {}

  absl::StatusOr<std::optional<Piece>> Previous() override {
    if (stream_.pieces.empty()) return std::nullopt;
    const LogPiece piece = stream_.pieces.back();
    stream_.pieces.pop_back();
    const std::string bytes = stream_.bytes.substr(piece.offset, piece.length);
    Piece result{piece.offset + piece.length, piece.time_us,
                 static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'))};
    const bool is_last = piece.offset + piece.length == stream_.bytes.size();
    if (is_last && !bytes.empty() && bytes.back() != '\n') ++result.lines;
    return result;
  }

 private:
  MemoryLogStream stream_;
};

}  // namespace

absl::StatusOr<std::vector<LogKey>> MemoryLogReader::Streams(uint64_t job,
                                                             std::optional<uint32_t> only) const {
  std::lock_guard lock(logs_->mutex);
  std::vector<LogKey> keys;
  for (const auto& [key, stream] : logs_->streams) {
    if (key.job == job && key.attempt == only.value_or(key.attempt)) keys.push_back(key);
  }
  return keys;
}

std::unique_ptr<LogCursor> MemoryLogReader::Open(const LogKey& key, uint64_t offset, size_t) const {
  return std::make_unique<MemoryLogCursor>(logs_, key, offset);
}

std::unique_ptr<LogBackwards> MemoryLogReader::OpenAtEnd(const LogKey& key) const {
  std::lock_guard lock(logs_->mutex);
  return std::make_unique<MemoryLogBackwards>(logs_->Find(key));
}

absl::StatusOr<uint64_t> MemoryLogReader::OffsetSince(const LogKey&, int64_t) const { return 0; }

absl::StatusOr<uint64_t> MemoryLogReader::OffsetOfLastLines(const LogKey& key,
                                                            uint64_t lines) const {
  std::lock_guard lock(logs_->mutex);
  const std::string bytes = logs_->Find(key).bytes;
  uint64_t found = 0;
  for (size_t i = bytes.size(); i > 1; --i) {
    if (bytes[i - 2] == '\n' && ++found == lines) return i - 1;
  }
  return 0;
}

void MemoryLogStore::Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) {
  thread_.Post([this, chunk = std::move(chunk), uploader = std::move(uploader)] {
    Write(chunk, *uploader);
  });
}

void MemoryLogStore::Write(const v1::LogChunk& chunk, LogUploader& uploader) {
  const LogKey key = KeyOf(chunk);
  v1::LogAck ack = AckFor(key);
  uploader.Consumed(chunk.ByteSizeLong());
  if (progress_.IsRemoved(key.job)) {
    ack.set_refused(true);
    return uploader.Acknowledge(ack);
  }
  bool is_new = false;
  bool ended = false;
  {
    std::lock_guard lock(logs_->mutex);
    is_new = !logs_->streams.contains(key);
    MemoryLogStream& stream = logs_->streams[key];
    ended = !stream.pieces.empty() && stream.pieces.back().end;
    const auto pieces = ended ? std::vector<LogPiece>() : NewPieces(chunk, stream.bytes.size());
    for (const LogPiece& piece : pieces) {
      stream.bytes.resize(piece.offset);
      stream.bytes += BytesOf(chunk, piece);
      stream.pieces.push_back(piece);
      ended = piece.end;
    }
    ack.set_durable_offset(stream.bytes.size() + (ended ? 1 : 0));
  }
  progress_.Wrote(key, ended);
  watchers_.Notify(key.job, LogNews{key, is_new});
  uploader.Acknowledge(ack);
}

WatchToken MemoryLogStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

void MemoryLogStore::Remove(uint64_t job) {
  progress_.Remove(job);
  watchers_.Forget(job);
  std::lock_guard lock(logs_->mutex);
  std::erase_if(logs_->streams, [&](const auto& stream) { return stream.first.job == job; });
}

}  // namespace muster::coordinator
