// Reads one rank's log stream piece by piece while it grows. Keeps no file open between reads, so
// that a follower of thousands of ranks costs no descriptors. The work pool's threads.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "coordinator/log_format.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

class LogCursor {
 public:
  // From `offset` of the stream on.
  LogCursor(const Paths& paths, const LogKey& key, uint64_t offset);

  const LogKey& Key() const { return key_; }
  // The next piece, cut to begin at the wanted offset; nullopt: nothing more for now.
  std::optional<LogIndexRecord> Peek();
  // The bytes of the piece; empty when they are gone (the job was removed).
  std::string Read(const LogIndexRecord& piece) const;
  void Advance();
  // The stream's end was passed.
  bool Ended() const { return ended_; }
  // Where the last `lines` lines of what is there begin.
  uint64_t OffsetOfLastLines(uint64_t lines) const;

 private:
  void Fill();

  LogKey key_;
  std::string data_path_;
  std::string index_path_;
  uint64_t from_ = 0;
  uint64_t next_record_ = 0;  // of the index file, to be read
  std::deque<LogIndexRecord> buffered_;
  bool ended_ = false;
};

}  // namespace muster::coordinator
