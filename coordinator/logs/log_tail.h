// Finds where the last lines of several streams together begin. Reads backwards by time, so the cost is only
// the requested lines and one look at the end of each stream. Works in pieces, because any number of lines may
// be requested; others get their turns on the pool in between.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

// One thread at a time.
class LogTail {
 public:
  // `streams`: for each stream, the offset at or after which it is requested. `logs` must outlive
  // this.
  LogTail(const LogReader& logs, std::map<LogKey, uint64_t> streams, uint64_t lines);
  LogTail(const LogTail&) = delete;

  // True: the offsets are found. False: call again. After an error this object cannot be used any
  // more.
  absl::StatusOr<bool> GoOn();
  // For each of the streams the offset at which its part of the last lines begins, at or after the
  // given one; for a stream without any of these lines, its end.
  const std::map<LogKey, uint64_t>& offsets() const { return offsets_; }

 private:
  using Place = std::tuple<int64_t, uint32_t, v1::LogStream>;  // time, rank, stream
  // A stream that is read backwards, and its current piece.
  struct Backwards {
    std::unique_ptr<LogBackwards> pieces;
    LogBackwards::Piece piece;
    uint64_t end = 0;    // of the stream
    uint64_t taken = 0;  // lines, from its end
  };
  // Of the newest attempt first, one after another.
  enum class Doing { kOpening, kTaking, kPlacing };

  // Each step reads from a file once.
  absl::Status Step();
  void OpenNext();
  absl::Status StepBack();
  void TakePiece();
  absl::Status PlaceOne();

  const LogReader& logs_;
  const std::map<LogKey, uint64_t> streams_;
  std::map<LogKey, uint64_t>::const_reverse_iterator next_;  // to be opened
  uint64_t left_;                                            // lines
  Doing doing_ = Doing::kOpening;
  std::optional<LogKey> stepping_;  // the stream that StepBack moves to an earlier piece
  std::map<LogKey, Backwards> of_attempt_;
  std::map<Place, LogKey> by_time_;
  std::map<LogKey, uint64_t> offsets_;
};

}  // namespace muster::coordinator
