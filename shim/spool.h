// One pipe of one rank and the spool file that its bytes go to, with the index of receive times.
// Bytes move by splice(2) and never pass through this process. The shim's one thread; nothing here
// blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "common/shim_protocol.h"

namespace muster::shim {

// Shared by all streams of the attempt: bytes written and not yet trimmed.
struct SpoolQuota {
  uint64_t limit = 0;  // 0: none
  uint64_t used = 0;
  bool block_when_full = false;
  // Somebody took from the spool lately: room will come, so that a burst is no flood. Decides when
  // block_when_full does not.
  bool being_taken = true;
  // No writer is left: what lies in the pipes is kept where ranks would be held. It is bounded.
  bool closing = false;
  // The disk was full for too long: what does not fit is dropped and counted.
  bool giving_up = false;

  bool MayBlock() const { return (block_when_full || being_taken) && !giving_up; }
  // Once full, room comes back only below 7/8: no ping-pong of tiny pieces.
  bool RoomAgain() const { return limit == 0 || used <= limit - limit / 8; }
  uint64_t Room() const;
};

enum class Drained {
  kNothing,  // the pipe is empty
  kSome,     // bytes were taken, few: the next ones may gather for a moment
  kMuch,     // bytes were taken, probably there are more
  kBlocked,  // the pipe may hold bytes that there is no room for
  kClosed,   // end of stream
};

class SpoolStream {
 public:
  SpoolStream() = default;
  SpoolStream(SpoolStream&& other) noexcept;
  SpoolStream(const SpoolStream&) = delete;
  ~SpoolStream();

  // Makes pipe, spool file and index. The write end is for the rank. 0 or an errno.
  int Open(const std::string& spool_path, SpoolQuota* quota, int* write_end);
  Drained Drain();
  // Bytes below `offset` and the first `index_records` records are durable elsewhere. True when any
  // of these bytes were not known to be.
  bool Trim(uint64_t offset, uint64_t index_records);
  // Writes the mark of dropped bytes when there is room for it again. True when it wrote one.
  bool FlushDropMark();
  // End of stream, or nobody who could still write is ours: writes what the index lacks.
  void Close();

  int pipe() const { return pipe_; }
  bool closed() const { return pipe_ < 0; }
  bool blocked() const { return blocked_; }
  uint64_t offset() const { return offset_; }
  uint64_t dropped() const { return dropped_total_; }
  size_t pipe_bytes() const { return pipe_bytes_; }
  int64_t rest_until_us = 0;  // the poll loop leaves the pipe alone until then

 private:
  Drained Store(uint64_t room);
  Drained Discard();
  Drained After(int64_t moved);
  void CountDropped(uint64_t bytes);
  bool AppendRecord(const common::SpoolRecord& record);
  bool FlushPendingRecord();
  // Blocks for the next records are there before they are needed: on a full disk the mark of what
  // was dropped can still be written.
  bool IndexHasRoom();

  SpoolQuota* quota_ = nullptr;
  int pipe_ = -1;
  int file_ = -1;
  int index_ = -1;
  size_t pipe_bytes_ = 0;
  uint64_t offset_ = 0;          // stream offset = file offset of the next byte
  uint64_t index_offset_ = 0;    // where the next record goes
  uint64_t index_reserved_ = 0;  // blocks below this offset exist
  uint64_t drop_pending_ = 0;    // dropped since the last record
  uint64_t dropped_total_ = 0;
  uint64_t trimmed_ = 0;
  uint64_t punched_ = 0;
  uint64_t index_punched_ = 0;
  bool dropping_ = false;
  bool blocked_ = false;
  bool record_pending_ = false;  // bytes are in the file, their record did not fit on the disk
  common::SpoolRecord record_{};
  struct Hole {
    uint64_t end;
    uint64_t bytes;
  };
  std::deque<Hole> holes_;  // dropped ranges above trimmed_: they hold no quota
};

}  // namespace muster::shim
