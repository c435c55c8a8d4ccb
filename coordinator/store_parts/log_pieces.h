// What a chunk adds to a stream: which of its bytes are new, and how they are cut into pieces.
// Shared by the implementations of LogStore. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

LogKey KeyOf(const v1::LogChunk& chunk);

// The offset from which its sender still has the stream. A sender that does not set it never goes back.
uint64_t KeptFrom(const v1::LogChunk& chunk);

// The pieces that the chunk adds to a stream that has its bytes up to `written` and no end yet, in
// order; the first one has the number of bytes dropped before it. Pieces are cut where the receive
// time changes. Empty: the chunk adds nothing new, or leaves a gap of bytes that were not dropped and
// that its sender still has.
std::vector<LogPiece> NewPieces(const v1::LogChunk& chunk, uint64_t written);

// Of one of its pieces.
inline std::string_view BytesOf(const v1::LogChunk& chunk, const LogPiece& piece) {
  return std::string_view(chunk.data()).substr(piece.offset - chunk.offset(), piece.length);
}

// Of the chunk's stream.
v1::LogAck AckFor(const LogKey& key);

}  // namespace muster::coordinator
