// One spool, written the way a shim writes it, together with what was written: the truth that the
// store is compared with. Unlike the shim, trims punch holes at byte granularity, so that nothing
// below them can be read by mistake.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/files/files.h"
#include "common/kernel/shim_protocol.h"
#include "tests/delivery/broken.h"

namespace muster::delivery {

// A stream's bytes at their offsets (zeros where output was dropped), and its gaps.
struct Content {
  std::string bytes;
  std::vector<std::pair<uint64_t, uint64_t>> gaps;  // offset, length; adjacent ones are one gap

  void Drop(uint64_t count) {
    if (count == 0) return;
    if (!gaps.empty() && gaps.back().first + gaps.back().second == bytes.size()) {
      gaps.back().second += count;
    } else {
      gaps.emplace_back(bytes.size(), count);
    }
    bytes.append(count, '\0');
  }
  bool operator==(const Content&) const = default;
};

class SpooledStream {
 public:
  SpooledStream(uint32_t rank, common::Stream stream, const std::string& path)
      : rank(rank), stream(stream) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
    data_ = common::UniqueFd(open(path.c_str(), kFlags, 0600));
    index_ = common::UniqueFd(open((path + ".idx").c_str(), kFlags, 0600));
    Expect(data_.valid() && index_.valid(), "cannot make " + path);
  }

  // The bytes first, their record later: between the two a reader must not see them.
  void WriteBytes(std::string bytes) {
    Put(data_.get(), bytes.data(), bytes.size(), truth.bytes.size());
    pending_ = std::move(bytes);
  }
  void WriteRecord(int64_t time_us) {
    const uint64_t offset = truth.bytes.size();
    truth.bytes += pending_;
    Append({offset, pending_.size(), time_us, std::exchange(dropped_, 0)});
    pending_.clear();
  }
  void Drop(uint64_t count) {
    truth.Drop(count);
    dropped_ += count;
  }
  // A record without bytes, so that a reader learns of the gap now.
  void MarkDropped(int64_t time_us) {
    if (dropped_ == 0) return;
    Append({truth.bytes.size(), 0, time_us, std::exchange(dropped_, 0)});
  }
  void Close(int64_t time_us) {
    MarkDropped(time_us);
    closed = true;
  }
  void Trim(uint64_t offset, uint64_t records) {
    constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (offset > 0) fallocate(data_.get(), kPunch, 0, static_cast<off_t>(offset));
    const uint64_t bytes = records * sizeof(common::SpoolRecord);
    if (bytes > 0) fallocate(index_.get(), kPunch, 0, static_cast<off_t>(bytes));
  }

  const uint32_t rank;
  const common::Stream stream;
  Content truth;
  int pieces_left = 0;
  bool closed = false;

 private:
  static void Put(int fd, const void* bytes, size_t size, uint64_t offset) {
    Expect(pwrite(fd, bytes, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size),
           "cannot write a spool");
  }
  void Append(const common::SpoolRecord& record) {
    Put(index_.get(), &record, sizeof record, records_++ * sizeof record);
  }

  common::UniqueFd data_;
  common::UniqueFd index_;
  std::string pending_;
  uint64_t dropped_ = 0;
  uint64_t records_ = 0;
};

}  // namespace muster::delivery
