// The ranks' output: streams of bytes, each with its pieces in order, appended from the workers' bulk
// streams and read while they grow. What was acknowledged is durable. A store without room keeps its
// senders waiting (the workers' spools hold the bytes); an offset that cannot be kept ends only that
// stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/stores/job_watchers.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// Which stream of bytes.
struct LogKey {
  uint64_t job = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  v1::LogStream stream = v1::LOG_STREAM_STDOUT;
  auto operator<=>(const LogKey&) const = default;
};

// Bytes [offset, offset + length) of the stream, received at time_us.
struct LogPiece {
  uint64_t offset = 0;
  uint64_t dropped = 0;     // bytes just before it that were never received
  uint64_t damaged = 0;     // bytes just before it that were stored and can no longer be read
  bool over_quota = false;  // the dropped bytes were stored, and removed for the job's quota
  int64_t time_us = 0;
  uint32_t length = 0;
  bool end = false;  // nothing follows
  // For a search (log_search.h): everything before this offset was searched, and this many lines were
  // found since the previous piece.
  std::optional<uint64_t> searched_to = {};
  uint64_t matches = 0;
};

// Something of a stream became readable.
struct LogNews {
  LogKey key;
  bool is_new = false;  // a stream that was not there before
};

// The sender's end of one bulk stream. Called on the store's threads; must only enqueue.
class LogUploader {
 public:
  virtual ~LogUploader() = default;
  // This many bytes of chunks left the queue: more may be read.
  virtual void Consumed(size_t bytes) = 0;
  virtual void Acknowledge(const v1::LogAck& ack) = 0;
  // Some of what was not acknowledged is not kept: it must be sent again, through another Uploader.
  virtual void SendAgain() = 0;
};

// Reads one stream piece by piece while it grows. Holds no scarce resource between two calls, so that
// thousands may be followed at once. One thread at a time.
class LogCursor {
 public:
  virtual ~LogCursor() = default;
  // The next piece, cut to begin at the wanted offset; nullopt: nothing more for now. UNAVAILABLE:
  // nothing was skipped, ask again later.
  virtual absl::StatusOr<std::optional<LogPiece>> Peek() = 0;
  // The bytes of the piece that Peek returned; fewer when they are gone (the job was removed).
  // DATA_LOSS: they are damaged. UNAVAILABLE: peek again later.
  virtual absl::StatusOr<std::string> Read(const LogPiece& piece) = 0;
  // The same, appended to `bytes`; on error, nothing is added.
  virtual absl::Status Append(const LogPiece& piece, std::string* bytes) {
    absl::StatusOr<std::string> body = Read(piece);
    if (body.ok()) bytes->append(*body);
    return body.status();
  }
  virtual void Advance() = 0;
  // Frees what was read ahead.
  virtual void Forget() {}
  // Whether the stream's end was passed.
  virtual bool Ended() const = 0;
  // When no further piece was found: the bytes after the last one that are not a piece. They are damage
  // once no writer uses the stream any more.
  virtual uint64_t UnreadableBytes() const = 0;
};

// The pieces of one stream from its end towards its beginning, as they were when first asked.
class LogBackwards {
 public:
  struct Piece {
    uint64_t end_offset = 0;
    int64_t time_us = 0;
    uint64_t lines = 0;  // that end in it; the last piece also counts an unfinished line
  };
  virtual ~LogBackwards() = default;
  // nullopt: that was the first one.
  virtual absl::StatusOr<std::optional<Piece>> Previous() = 0;
};

// May be slow or remote: on the work pools' threads, any number of them.
class LogReader {
 public:
  virtual ~LogReader() = default;
  // The job's streams that have begun, of one attempt or of all, in order.
  virtual absl::StatusOr<std::vector<LogKey>> Streams(uint64_t job,
                                                      std::optional<uint32_t> attempt) const = 0;
  // From `offset` on. A stream that does not exist has no pieces yet. `ahead`: about how many bytes to
  // read at a time, kept in memory until Forget; 0: piece by piece, nothing is kept.
  virtual std::unique_ptr<LogCursor> Open(const LogKey& key, uint64_t offset,
                                          size_t ahead = 0) const = 0;
  virtual std::unique_ptr<LogBackwards> OpenAtEnd(const LogKey& key) const = 0;
  // An offset before which there is nothing from `time_us` or later, unless a clock was set back: the
  // nearest one that can be found without reading much.
  virtual absl::StatusOr<uint64_t> OffsetSince(const LogKey& key, int64_t time_us) const = 0;
  // Where the last `lines` lines of what is stored begin.
  virtual absl::StatusOr<uint64_t> OffsetOfLastLines(const LogKey& key, uint64_t lines) const = 0;
};

class LogStore {
 public:
  virtual ~LogStore() = default;
  // Waits, for some seconds at most, until what was taken is durable.
  virtual void Settle() {}
  // Ends its threads. What is not acknowledged by then may not be kept.
  virtual void Stop() = 0;

  // Any thread; never blocks. Bytes that are known already change nothing, except that they replace what
  // was found damaged. A chunk after a gap that neither `dropped` nor `kept_from` explains is not stored:
  // the acknowledgement tells the sender where to continue, which may be before where it was.
  // The caller bounds what it has in flight by Consumed.
  virtual void Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) = 0;
  // Told after bytes of the job became readable. Any thread.
  using Watcher = JobWatchers<LogNews>::Watcher;
  virtual WatchToken Watch(uint64_t job, Watcher watcher) = 0;
  // The store outlives it.
  virtual const LogReader& Reader() const = 0;
  // Deletes the job's logs; later chunks of it are refused. May be slow.
  virtual void Remove(uint64_t job) = 0;
  // Jobs of which it has something, and perhaps some of which it has nothing any more. May be slow.
  virtual std::vector<uint64_t> Jobs() const = 0;
  // Keeps at most this many bytes of the job's output, if that is less than the limit for any job. Beyond
  // it the oldest are removed, and a piece records how many they were. Any thread; lasts until the daemon
  // ends.
  virtual void KeepAtMost(uint64_t job, uint64_t bytes) = 0;

  // What the job's output takes, about. May be slow.
  virtual uint64_t StoredBytes(uint64_t job) const = 0;
  // Whether every coordinator of the cluster reads the same.
  virtual bool IsShared() const { return false; }

  // Any thread. Streams that were begun here and have no `end` yet.
  virtual size_t UnendedStreams() const = 0;
  // Call it when a reader of a finished job has waited for the rest of its output in vain: until more
  // arrives, other readers need not wait.
  virtual void GiveUpRest(uint64_t job) = 0;
  virtual bool IsRestGivenUp(uint64_t job) const = 0;
};

}  // namespace muster::coordinator
