#include "coordinator/store_parts/log_pieces.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

// Pieces received this close together are merged.
constexpr int64_t kMergedMarksUs = 1'000;

struct Piece {
  size_t begin = 0;
  size_t end = 0;
  int64_t time_us = 0;
};

// The chunk's data from `skip` on, cut where the receive time changes.
std::vector<Piece> PiecesOf(const v1::LogChunk& chunk, size_t skip) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  int64_t time_us = chunk.marks().empty() ? chunk.time_us() : chunk.marks(0).time_us();
  const auto add = [&](size_t end) {
    if (end > std::max(begin, skip)) pieces.push_back({std::max(begin, skip), end, time_us});
    begin = end;
  };
  for (const v1::LogMark& mark : chunk.marks()) {
    const size_t position = std::min<size_t>(mark.position(), chunk.data().size());
    if (mark.time_us() - time_us < kMergedMarksUs && mark.time_us() >= time_us) continue;
    add(position);
    time_us = mark.time_us();
  }
  add(chunk.data().size());
  return pieces;
}

}  // namespace

LogKey KeyOf(const v1::LogChunk& chunk) {
  return {chunk.job(), chunk.attempt(), chunk.rank(), chunk.stream()};
}

uint64_t KeptFrom(const v1::LogChunk& chunk) {
  return chunk.has_kept_from() ? chunk.kept_from() : UINT64_MAX;
}

std::vector<LogPiece> NewPieces(const v1::LogChunk& chunk, uint64_t written) {
  const size_t size = chunk.data().size();
  const uint64_t end = chunk.offset() + size;
  if (end < written || (end == written && !chunk.end())) return {};
  uint64_t dropped = 0;
  uint64_t damaged = 0;
  size_t skip = 0;
  if (chunk.offset() > written) {
    dropped = std::min(chunk.dropped(), chunk.offset() - written);
    const uint64_t missing_until = chunk.offset() - dropped;
    if (missing_until > written && missing_until > KeptFrom(chunk)) return {};
    damaged = missing_until - written;
  } else {
    skip = static_cast<size_t>(written - chunk.offset());
  }
  std::vector<LogPiece> pieces;
  for (const Piece& piece : PiecesOf(chunk, skip)) {
    pieces.push_back({.offset = chunk.offset() + piece.begin,
                      .dropped = std::exchange(dropped, 0),
                      .damaged = std::exchange(damaged, 0),
                      .time_us = piece.time_us,
                      .length = static_cast<uint32_t>(piece.end - piece.begin),
                      .end = chunk.end() && piece.end == size});
  }
  // A piece without bytes: the end, or a gap that nothing follows yet. A gap needs a piece; otherwise the
  // next start takes everything behind it for torn.
  if (skip == size && (chunk.end() || dropped > 0)) {
    pieces.push_back({.offset = end,
                      .dropped = dropped,
                      .damaged = damaged,
                      .time_us = chunk.time_us(),
                      .length = 0,
                      .end = chunk.end()});
  }
  return pieces;
}

v1::LogAck AckFor(const LogKey& key) {
  v1::LogAck ack;
  ack.set_job(key.job);
  ack.set_attempt(key.attempt);
  ack.set_rank(key.rank);
  ack.set_stream(key.stream);
  return ack;
}

}  // namespace muster::coordinator
