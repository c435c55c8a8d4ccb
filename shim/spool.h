// One pipe of one rank and the spool file that it is written to, with the index of receive times.
// Bytes move by splice(2) and never pass through this process. The shim's only thread; nothing here
// blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

// Shared by all streams of the attempt: bytes written but not yet trimmed.
struct SpoolQuota {
  uint64_t limit = 0;  // 0: none
  uint64_t used = 0;
  bool block_when_full = false;
  // The spool was read recently, so there will be room: this is a burst, not a flood. Decides
  // unless block_when_full is set.
  bool being_taken = true;
  // No writer is left: the bytes in the pipes, whose number is bounded, are kept even where ranks
  // would be blocked.
  bool closing = false;
  // The disk was full for too long: bytes that do not fit are dropped and counted.
  bool giving_up = false;

  bool MayBlock() const { return (block_when_full || being_taken) && !giving_up; }
  // Once full, there is room again only below 7/8, so that it does not oscillate in tiny steps.
  bool RoomAgain() const { return limit == 0 || used <= limit - limit / 8; }
  uint64_t Room() const;
};

enum class Drained {
  kNothing,  // the pipe is empty
  kSome,     // a few bytes were read: let the next ones accumulate for a moment
  kMuch,     // many bytes were read, and there are probably more
  kBlocked,  // the pipe may hold bytes, but there is no room for them
  kClosed,   // end of stream
};

class SpoolStream {
 public:
  SpoolStream() = default;
  SpoolStream(SpoolStream&& other) noexcept;
  SpoolStream(const SpoolStream&) = delete;
  ~SpoolStream();

  // Creates pipe, spool file and index. The rank gets the write end. 0 or an errno.
  int Open(const std::string& spool_path, SpoolQuota* quota, int* write_end);
  Drained Drain();
  // Bytes below `offset` and the first `index_records` records are durable elsewhere. True if any
  // of these bytes had not been acknowledged before.
  bool Trim(uint64_t offset, uint64_t index_records);
  // Writes the drop mark once there is room for it again. True if it wrote one.
  bool FlushDropMark();
  // Call it at end of stream, or once no writer of ours is left. Writes the missing records of the
  // index.
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
  // Allocates blocks for the next records before they are needed, so that a drop mark can be
  // written even on a full disk.
  bool IndexHasRoom();

  SpoolQuota* quota_ = nullptr;
  int pipe_ = -1;
  int file_ = -1;
  int index_ = -1;
  size_t pipe_bytes_ = 0;
  uint64_t offset_ = 0;          // stream offset = file offset of the next byte
  uint64_t index_offset_ = 0;    // of the next record
  uint64_t index_reserved_ = 0;  // blocks below this offset exist
  uint64_t drop_pending_ = 0;    // dropped since the last record
  uint64_t dropped_total_ = 0;
  uint64_t trimmed_ = 0;
  uint64_t punched_ = 0;
  uint64_t index_punched_ = 0;
  bool dropping_ = false;
  bool blocked_ = false;
  bool record_pending_ = false;  // bytes are in the file, but their record did not fit on the disk
  common::SpoolRecord record_{};
  struct Hole {
    uint64_t end;
    uint64_t bytes;
  };
  std::deque<Hole> holes_;  // dropped ranges above trimmed_: not charged to the quota
};

}  // namespace muster::shim
