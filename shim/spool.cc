#include "shim/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/kernel/process.h"

namespace muster::shim {
namespace {

using common::SpoolRecord;

constexpr int kPipeBytes = 1 << 20;
constexpr size_t kDrainBytesMax = 1 << 20;  // per stream and turn
constexpr uint64_t kPunchBytes =
    1 << 20;  // holes are punched in pieces of this, not per acknowledgement
constexpr uint64_t kIndexPunchBytes = 64 << 10;
constexpr uint64_t kIndexStepBytes = 4096;
// A pending record, a drop mark, and the closing record.
constexpr uint64_t kLastRecordsBytes = 3 * sizeof(SpoolRecord);

// A sink for dropped bytes, without copying them.
int NullFd() {
  static const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  return fd;
}

// The result of one transfer from the pipe: `stored` bytes went to the file, another `lost` bytes
// were dropped.
struct Moved {
  ssize_t stored = 0;
  uint64_t lost = 0;
};

// Some file systems (FUSE without splice support) reject splice; then use read and write. Unlike
// splice, that cannot leave bytes in the pipe if the disk does not accept them.
Moved CopyOver(int pipe, int file, uint64_t offset, size_t bytes) {
  static char buffer[64 * 1024];
  const ssize_t count = read(pipe, buffer, std::min(bytes, sizeof buffer));
  if (count <= 0) return {count, 0};
  ssize_t written = 0;
  while (written < count) {
    const ssize_t part = pwrite(file, buffer + written, static_cast<size_t>(count - written),
                                static_cast<off_t>(offset) + written);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    written += part;
  }
  return {written, static_cast<uint64_t>(count - written)};
}

Moved MoveBytes(int pipe, int file, uint64_t offset, size_t bytes) {
  while (true) {
    loff_t at = static_cast<loff_t>(offset);
    const ssize_t count =
        splice(pipe, nullptr, file, &at, bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EINVAL) return CopyOver(pipe, file, offset, bytes);
    return {count, 0};
  }
}

}  // namespace

uint64_t SpoolQuota::Room() const {
  if (limit == 0 || (closing && MayBlock())) return UINT64_MAX;
  return used >= limit ? 0 : limit - used;
}

SpoolStream::SpoolStream(SpoolStream&& other) noexcept
    : rest_until_us(other.rest_until_us),
      quota_(other.quota_),
      pipe_(std::exchange(other.pipe_, -1)),
      file_(std::exchange(other.file_, -1)),
      index_(std::exchange(other.index_, -1)),
      pipe_bytes_(other.pipe_bytes_) {}

SpoolStream::~SpoolStream() {
  for (const int fd : {pipe_, file_, index_}) {
    if (fd >= 0) close(fd);
  }
}

int SpoolStream::Open(const std::string& spool_path, SpoolQuota* quota, int* write_end) {
  quota_ = quota;
  const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
  file_ = open(spool_path.c_str(), flags, 0600);
  if (file_ < 0) return errno;
  index_ = open((spool_path + ".idx").c_str(), flags, 0600);
  if (index_ < 0) return errno;
  IndexHasRoom();  // while the disk still has room
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  pipe_ = ends[0];
  *write_end = ends[1];
  fcntl(pipe_, F_SETFL,
        O_NONBLOCK);  // affects only the read end's file description; the rank's end stays blocking
  fcntl(pipe_, F_SETPIPE_SZ, kPipeBytes);
  const int size = fcntl(pipe_, F_GETPIPE_SZ);
  pipe_bytes_ = size > 0 ? static_cast<size_t>(size) : 4096;
  return 0;
}

Drained SpoolStream::Drain() {
  if (closed()) return Drained::kClosed;
  if (record_pending_) FlushPendingRecord();
  if (dropping_ && quota_->RoomAgain() && !record_pending_) dropping_ = false;
  if (blocked_ && (quota_->RoomAgain() || quota_->closing))
    blocked_ = false;  // or find that the disk is still full
  const uint64_t room = IndexHasRoom() ? quota_->Room() : 0;
  const bool full = room == 0 || record_pending_ || blocked_ || dropping_;
  if (!full) return Store(room);
  if (quota_->MayBlock()) {
    blocked_ = true;
    return Drained::kBlocked;
  }
  dropping_ = true;
  return Discard();
}

Drained SpoolStream::Store(uint64_t room) {
  const Moved moved = MoveBytes(pipe_, file_, offset_, std::min<uint64_t>(room, kDrainBytesMax));
  const ssize_t count = moved.stored;
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Drained::kNothing;
  if (count < 0) {
    // The disk is full or broken. Splice left the bytes in the pipe.
    if (quota_->MayBlock()) {
      blocked_ = true;
      return Drained::kBlocked;
    }
    dropping_ = true;
    return Discard();
  }
  if (count == 0 && moved.lost == 0) {
    Close();
    return Drained::kClosed;
  }
  const SpoolRecord record{offset_, static_cast<uint64_t>(count), common::WallMicros(),
                           std::exchange(drop_pending_, 0)};
  offset_ += static_cast<uint64_t>(count);
  quota_->used += static_cast<uint64_t>(count);
  AppendRecord(record);
  CountDropped(moved.lost);
  return After(count);
}

Drained SpoolStream::Discard() {
  ssize_t count;
  do {
    count = splice(pipe_, nullptr, NullFd(), nullptr, kDrainBytesMax, SPLICE_F_NONBLOCK);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return Drained::kNothing;
  if (count == 0) {
    Close();
    return Drained::kClosed;
  }
  CountDropped(static_cast<uint64_t>(count));
  return After(count);
}

void SpoolStream::CountDropped(uint64_t bytes) {
  if (bytes == 0) return;
  if (!holes_.empty() && holes_.back().end == offset_) {
    holes_.back().bytes += bytes;
    holes_.back().end += bytes;
  } else {
    holes_.push_back({offset_ + bytes, bytes});
  }
  offset_ += bytes;
  drop_pending_ += bytes;
  dropped_total_ += bytes;
}

Drained SpoolStream::After(int64_t moved) {
  return static_cast<size_t>(moved) >= pipe_bytes_ / 8 ? Drained::kMuch : Drained::kSome;
}

bool SpoolStream::AppendRecord(const SpoolRecord& record) {
  record_ = record;
  record_pending_ = true;
  return FlushPendingRecord();
}

bool SpoolStream::FlushPendingRecord() {
  char bytes[sizeof record_];
  std::memcpy(bytes, &record_, sizeof bytes);
  const ssize_t count = pwrite(index_, bytes, sizeof bytes, static_cast<off_t>(index_offset_));
  if (count != static_cast<ssize_t>(sizeof bytes)) return false;
  index_offset_ += sizeof record_;
  record_pending_ = false;
  return true;
}

bool SpoolStream::IndexHasRoom() {
  if (index_offset_ + kLastRecordsBytes <= index_reserved_) return true;
  if (fallocate(index_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(index_reserved_),
                kIndexStepBytes) != 0) {
    return errno == EOPNOTSUPP;
  }
  index_reserved_ += kIndexStepBytes;
  return true;
}

bool SpoolStream::FlushDropMark() {
  if (closed() || drop_pending_ == 0 || record_pending_ || !quota_->RoomAgain()) return false;
  if (!IndexHasRoom()) return false;
  dropping_ = false;
  AppendRecord({offset_, 0, common::WallMicros(), std::exchange(drop_pending_, 0)});
  return true;
}

void SpoolStream::Close() {
  if (closed()) return;
  close(std::exchange(pipe_, -1));
  if (record_pending_) FlushPendingRecord();
  if (drop_pending_ > 0 && !record_pending_) {
    AppendRecord({offset_, 0, common::WallMicros(), std::exchange(drop_pending_, 0)});
  }
}

bool SpoolStream::Trim(uint64_t offset, uint64_t index_records) {
  offset = std::min(offset, offset_);
  const bool taken = offset > trimmed_;
  if (taken) {
    uint64_t stored = offset - trimmed_;
    while (!holes_.empty() && holes_.front().end <= offset) {
      stored -= std::min(stored, holes_.front().bytes);
      holes_.pop_front();
    }
    quota_->used -= std::min(quota_->used, stored);
    trimmed_ = offset;
  }
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  // Best effort: a file system without holes keeps the bytes until the directory is removed.
  if (trimmed_ - punched_ >= kPunchBytes) {
    const uint64_t end = trimmed_ / kPunchBytes * kPunchBytes;
    fallocate(file_, kPunch, static_cast<off_t>(punched_), static_cast<off_t>(end - punched_));
    punched_ = end;
  }
  const uint64_t index_end = std::min(index_records * sizeof(SpoolRecord), index_offset_) /
                             kIndexPunchBytes * kIndexPunchBytes;
  if (index_end > index_punched_) {
    fallocate(index_, kPunch, static_cast<off_t>(index_punched_),
              static_cast<off_t>(index_end - index_punched_));
    index_punched_ = index_end;
  }
  return taken;
}

}  // namespace muster::shim
