// log_forwarder: one cursor per stream, shared credits.
#include "worker/output/log_forwarder.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

// limit: logs: log bytes in flight per node; the rest waits in the spools
constexpr uint64_t kCreditBytes = 4 << 20;  // unacknowledged, all streams together
// limit: logs: the same per stream
constexpr uint64_t kStreamCreditBytes = 2 << 20;  // … per stream
constexpr uint64_t kBatchBytes = 64 * 1024;
constexpr int64_t kBatchMs = 50;
constexpr uint64_t kTrimStepBytes =
    1 << 20;  // because trimming and saving offsets take a few system calls
constexpr uint64_t kTailKeptBytes = 64 * 1024;  // kept for the last lines in an exit report

v1::LogStream WireStream(common::Stream stream) {
  return stream == common::Stream::kStdout ? v1::LOG_STREAM_STDOUT : v1::LOG_STREAM_STDERR;
}

}  // namespace

LogForwarder::LogForwarder(Paths paths, Source source, Callbacks callbacks, size_t open_max)
    : paths_(std::move(paths)),
      source_(std::move(source)),
      callbacks_(std::move(callbacks)),
      open_files_(open_max) {}

void LogForwarder::Add(const AttemptKey& key, uint32_t first_rank, uint32_t ranks) {
  const AckedFile& acked =
      acked_.insert_or_assign(key, AckedFile(paths_.SpoolAcked(key), first_rank, ranks))
          .first->second;
  for (uint32_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    for (common::Stream which : {common::Stream::kStdout, common::Stream::kStderr}) {
      const std::pair<uint32_t, uint32_t> id{rank, static_cast<uint32_t>(which)};
      Stream stream;
      stream.key = key;
      stream.rank = rank;
      stream.stream = which;
      stream.reader =
          std::make_unique<SpoolReader>(common::SpoolPath(paths_.SpoolDir(key), rank, which));
      if (const uint64_t known = acked.Offset(rank, which); known > 0) {
        // The rank can write to that file too, so trust it no further than the index. If a stream
        // is trimmed to its end, nothing more is known about it.
        const absl::StatusOr<uint64_t> end = stream.reader->End();
        const bool trimmed = end.ok() && *end == 0;
        const uint64_t most = trimmed ? common::kLogStreamBytesMax : end.ok() ? *end : 0;
        stream.acked.offset = std::min(known, most);
        stream.reader->Close();
        stream.kept = stream.acked;  // the trimmed part is not known any more
      }
      stream.reader->Seek(stream.acked);
      if (streams_.emplace(StreamKey{key, id}, std::move(stream)).second) ++open_[key];
    }
  }
}

void LogForwarder::Grew(const AttemptKey& key) { Touch(key); }

// The shim's note does not say which stream has grown.
void LogForwarder::Touch(const AttemptKey& key) {
  for (auto at = streams_.lower_bound({key, {0, 0}});
       at != streams_.end() && at->first.first == key; ++at) {
    at->second.maybe_more = true;
  }
}

void LogForwarder::Closed(const AttemptKey& key, uint32_t rank, common::Stream stream,
                          uint64_t end) {
  auto found = streams_.find({key, {rank, static_cast<uint32_t>(stream)}});
  if (found != streams_.end() && !found->second.end) found->second.end = end;
  Touch(key);
}

void LogForwarder::Ended(const AttemptKey& key) {
  if (open_.find(key) == open_.end()) return callbacks_.drained(key);
  for (auto at = streams_.lower_bound({key, {0, 0}});
       at != streams_.end() && at->first.first == key; ++at) {
    at->second.ended = true;
  }
  Touch(key);
}

void LogForwarder::Remove(const AttemptKey& key) {
  auto at = streams_.lower_bound({key, {0, 0}});
  while (at != streams_.end() && at->first.first == key) {
    in_flight_bytes_ -= at->second.in_flight_bytes;
    open_files_.Forget(at->second.reader.get());
    at = streams_.erase(at);
  }
  open_.erase(key);
  acked_.erase(key);
}

void LogForwarder::Used(Stream& stream) {
  SpoolReader* const reader = stream.reader.get();
  open_files_.Use(reader, [reader] { reader->Close(); });
}

void LogForwarder::Restart() {
  for (auto& [id, stream] : streams_) {
    stream.is_probing = stream.is_probing || !stream.in_flight.empty();
    stream.in_flight.clear();
    stream.in_flight_bytes = 0;
    stream.end_sent = false;
    stream.maybe_more = true;
    stream.went_back_to.reset();
    stream.reader->Seek(stream.acked);
  }
  in_flight_bytes_ = 0;
}

LogForwarder::Ready LogForwarder::Check(Stream& stream, int64_t now_ms) {
  if (stream.done || stream.end_sent || !stream.maybe_more ||
      stream.in_flight_bytes >= kStreamCreditBytes ||
      (stream.is_probing && !stream.in_flight.empty()) ||
      (callbacks_.keeps_up && !callbacks_.keeps_up(stream.key))) {
    return Ready::kNo;
  }
  if (stream.trouble.Waits(now_ms)) return Later(stream);
  const absl::StatusOr<uint64_t> end = stream.reader->End();
  Used(stream);
  if (!end.ok()) return WaitOrFail(stream, end.status(), now_ms);
  if (stream.ended && !stream.end) stream.end = *end;  // not reported: use the end of the index
  const uint64_t place = stream.reader->place().offset;
  const uint64_t available = *end > place ? *end - place : 0;
  if (available == 0) return AtEnd(stream, *end);
  if (stream.in_flight.empty() || available >= kBatchBytes || stream.end) {
    return Ready::kYes;
  }
  if (stream.waiting_since_ms < 0) stream.waiting_since_ms = now_ms;
  return now_ms - stream.waiting_since_ms >= kBatchMs ? Ready::kYes : Ready::kLater;
}

// Called when everything in the index, up to `end`, was taken.
LogForwarder::Ready LogForwarder::AtEnd(Stream& stream, uint64_t end) {
  stream.trouble.Over();
  const uint64_t reached = std::max(end, stream.reader->place().offset);
  if (stream.ended && *stream.end > reached) {  // more was reported than is on disk
    callbacks_.note(common::StrCat("the end of a rank's output is missing job=", stream.key.job,
                                   " attempt=", stream.key.attempt, " rank=", stream.rank,
                                   " index_ends=", end, " said=", *stream.end));
    stream.end = reached;
  }
  const bool at_end = stream.end && stream.reader->place().offset >= *stream.end;
  if (!at_end) stream.maybe_more = false;
  return at_end ? Ready::kYes : Ready::kNo;
}

LogForwarder::Ready LogForwarder::WaitOrFail(Stream& stream, const absl::Status& status,
                                             int64_t now_ms) {
  if (!stream.trouble.MayWait(status, now_ms)) {
    Fail(stream, std::string(status.message()));
    return Ready::kNo;
  }
  if (stream.trouble.IsNew()) {
    callbacks_.note(common::StrCat("output waits job=", stream.key.job,
                                   " attempt=", stream.key.attempt, " rank=", stream.rank,
                                   " reason=\"", std::string(status.message()), "\""));
  }
  return Later(stream);
}

LogForwarder::Ready LogForwarder::Later(Stream& stream) {
  stream.waiting_since_ms = stream.trouble.retry_ms() - kBatchMs;
  return Ready::kLater;
}

std::optional<int64_t> LogForwarder::Pump(int64_t now_ms) {
  std::optional<int64_t> later;
  size_t idle = 0;  // streams in a row with nothing to send
  auto at = streams_.upper_bound(turn_);
  while (idle < streams_.size() && in_flight_bytes_ < kCreditBytes && callbacks_.can_send()) {
    if (at == streams_.end()) at = streams_.begin();
    Stream& stream = at->second;
    Ready ready = Check(stream, now_ms);
    if (ready == Ready::kYes) {
      turn_ = at->first;
      ready = SendNext(stream, now_ms);
    }
    if (ready == Ready::kLater) {
      const int64_t due = stream.waiting_since_ms + kBatchMs;
      later = later ? std::min(*later, due) : due;
    }
    idle = ready == Ready::kYes ? 0 : idle + 1;
    ++at;
  }
  return later;
}

LogForwarder::Ready LogForwarder::SendNext(Stream& stream, int64_t now_ms) {
  stream.waiting_since_ms = -1;
  absl::StatusOr<SpoolPiece> piece = stream.reader->Next(common::kLogChunkBytesMax);
  Used(stream);
  if (!piece.ok()) return WaitOrFail(stream, piece.status(), now_ms);
  stream.trouble.Over();
  const bool last = stream.end && stream.reader->place().offset >= *stream.end;
  if (piece->empty() && !last) {  // nothing readable yet
    stream.maybe_more = piece->more;
    if (!piece->more) return Ready::kYes;
    stream.waiting_since_ms = now_ms;
    return Ready::kLater;
  }
  Send(stream, *std::move(piece));
  return Ready::kYes;
}

void LogForwarder::Send(Stream& stream, SpoolPiece piece) {
  const uint64_t size = stream.is_probing ? 0 : piece.data.size();
  v1::LogChunk chunk;
  chunk.set_job(stream.key.job);
  chunk.set_attempt(stream.key.attempt);
  chunk.set_rank(stream.rank);
  chunk.set_stream(WireStream(stream.stream));
  chunk.set_offset(piece.offset);
  chunk.set_dropped(piece.dropped);
  chunk.set_kept_from(std::min(stream.kept.offset, piece.offset));
  chunk.set_node(source_.node);
  chunk.set_incarnation(source_.incarnation);
  for (const auto& [position, time_us] : piece.marks) {
    v1::LogMark* mark = chunk.add_marks();
    mark->set_position(position);
    mark->set_time_us(time_us);
    chunk.set_time_us(time_us);
  }
  chunk.set_data(std::move(piece.data));
  const SpoolPlace place = stream.reader->place();
  const bool last = stream.end && place.offset >= *stream.end;
  chunk.set_end(last);
  stream.end_sent = last;
  stream.in_flight.push_back({place, size, last});
  stream.in_flight_bytes += size;
  in_flight_bytes_ += size;
  callbacks_.send(std::move(chunk));
}

void LogForwarder::OnAck(const v1::LogAck& ack) {
  const uint32_t which = ack.stream() == v1::LOG_STREAM_STDERR ? 1 : 0;
  auto found = streams_.find({{ack.job(), ack.attempt()}, {ack.rank(), which}});
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  if (stream.done) return;
  if (ack.refused()) return Fail(stream, "the coordinator refused it (unknown job or old attempt)");
  // Regardless of what it acknowledges, because it may need more to fill a damaged range.
  stream.is_probing = false;
  if (ack.durable_offset() < stream.acked.offset) return GoBack(stream, ack.durable_offset());
  bool finished = false;
  while (!stream.in_flight.empty()) {
    const InFlight& front = stream.in_flight.front();
    // The end counts as one more byte, because the bytes without the end may have been acknowledged
    // before, or twice.
    if (front.end.offset + (front.last ? 1 : 0) > ack.durable_offset()) break;
    stream.acked = front.end;
    stream.in_flight_bytes -= front.bytes;
    in_flight_bytes_ -= front.bytes;
    finished |= front.last;
    stream.in_flight.pop_front();
  }
  if (finished) return Finish(stream);
  // The coordinator may have more than we remember (we were restarted): skip what it has.
  const SpoolPlace place = stream.reader->place();
  if (stream.in_flight.empty() && ack.durable_offset() > place.offset) {
    const uint64_t end = stream.reader->End().value_or(place.offset);
    Used(stream);
    const uint64_t known = std::min(ack.durable_offset(), end);  // not the end
    stream.acked.offset = std::max(stream.acked.offset, known);
    stream.reader->Seek({std::max(place.offset, known), place.record});
  }
  MaybeTrim(stream);
}

void LogForwarder::MaybeTrim(Stream& stream) {
  if (stream.acked.offset < stream.trimmed + kTrimStepBytes + kTailKeptBytes) return;
  stream.trimmed = stream.acked.offset - kTailKeptBytes;
  stream.kept = stream.acked;
  // First save where a restarted worker resumes, then punch the hole.
  acked_.at(stream.key).Save(stream.rank, stream.stream, stream.acked.offset);
  callbacks_.trim(stream.key, stream.rank, stream.stream, stream.trimmed, stream.acked.record);
}

void LogForwarder::GoBack(Stream& stream, uint64_t durable_offset) {
  // The acknowledgements of chunks in flight repeat the request.
  if (stream.went_back_to == durable_offset) return;
  stream.went_back_to = durable_offset;
  stream.acked = stream.kept;
  stream.acked.offset = std::max(stream.kept.offset, durable_offset);
  callbacks_.note(common::StrCat("output is resent: the coordinator lacks it job=", stream.key.job,
                                 " attempt=", stream.key.attempt, " rank=", stream.rank,
                                 " from=", stream.acked.offset));
  in_flight_bytes_ -= stream.in_flight_bytes;
  stream.in_flight.clear();
  stream.in_flight_bytes = 0;
  stream.end_sent = false;
  stream.maybe_more = true;
  stream.reader->Seek(stream.acked);
}

// The rest of the stream cannot be delivered; it must not fill the spool.
void LogForwarder::Fail(Stream& stream, const std::string& reason) {
  callbacks_.note(common::StrCat("output abandoned job=", stream.key.job,
                                 " attempt=", stream.key.attempt, " rank=", stream.rank,
                                 " reason=\"", reason, "\""));
  in_flight_bytes_ -= stream.in_flight_bytes;
  stream.in_flight.clear();
  stream.in_flight_bytes = 0;
  callbacks_.trim(stream.key, stream.rank, stream.stream, common::kLogStreamBytesMax, 0);
  Finish(stream);
}

void LogForwarder::Finish(Stream& stream) {
  stream.done = true;
  open_files_.Forget(stream.reader.get());
  stream.reader->Close();
  const AttemptKey key = stream.key;
  auto open = open_.find(key);
  if (open == open_.end() || --open->second > 0) return;
  open_.erase(open);
  callbacks_.drained(key);
}

uint64_t LogForwarder::SpoolBytes() {
  uint64_t total = 0;
  for (auto& [id, stream] : streams_) {
    if (stream.done) continue;
    const uint64_t end = stream.reader->End().value_or(0);
    Used(stream);
    total += end > stream.acked.offset ? end - stream.acked.offset : 0;
  }
  return total;
}

}  // namespace muster::worker
