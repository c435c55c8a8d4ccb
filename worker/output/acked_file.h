// How far an attempt's streams were acknowledged: where a restarted worker resumes. One line for each stream, of
// one length, so that a single line is replaced in place. Nothing is synced: a power failure ends the attempt anyway.
// Any one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/kernel/shim_protocol.h"

namespace muster::worker {

class AckedFile {
 public:
  // Reads what an earlier worker saved. The ranks may write to the file: check what it says.
  AckedFile(std::string path, uint32_t first_rank, uint32_t ranks);

  // 0: nothing is known.
  uint64_t Offset(uint32_t rank, common::Stream stream) const {
    return offsets_[Line(rank, stream)];
  }
  // On a full disk the file stays as it was: the coordinator recognizes what is then sent twice.
  void Save(uint32_t rank, common::Stream stream, uint64_t offset);

 private:
  size_t Line(uint32_t rank, common::Stream stream) const {
    return (rank - first_rank_) * 2 + static_cast<size_t>(stream);
  }
  std::string TextOf(size_t line) const;
  bool Replace(size_t line) const;

  std::string path_;
  uint32_t first_rank_;
  std::vector<uint64_t> offsets_;  // by line
  bool is_written_ = false;        // by this worker
};

}  // namespace muster::worker
