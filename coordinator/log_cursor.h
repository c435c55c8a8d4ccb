// Reads one rank's log stream piece by piece while it grows. Keeps no file open between reads, so
// that a follower of thousands of ranks costs no descriptors. The work pool's threads.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/log_format.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

class LogCursor {
 public:
  // From `offset` of the stream on.
  LogCursor(const Paths& paths, const LogKey& key, uint64_t offset);

  const LogKey& Key() const { return key_; }
  // The next piece, cut to begin at the wanted offset; nullopt: nothing more for now, or Trouble.
  std::optional<LogIndexRecord> Peek();
  // The bytes of the piece; empty when they are gone (the job was removed). Not OK: ask again
  // later.
  absl::StatusOr<std::string> Read(const LogIndexRecord& piece) const;
  void Advance();
  // Why the last Peek could not look: no descriptor was free. OK otherwise.
  const absl::Status& Trouble() const { return trouble_; }
  // The stream's end was passed.
  bool Ended() const { return ended_; }
  // Where the last `lines` lines of what is there begin.
  absl::StatusOr<uint64_t> OffsetOfLastLines(uint64_t lines) const;

 private:
  absl::Status Fill();

  LogKey key_;
  std::string data_path_;
  std::string index_path_;
  uint64_t from_ = 0;
  std::optional<uint64_t> next_record_;  // of the index file, to be read; none: not looked up yet
  std::deque<LogIndexRecord> buffered_;
  absl::Status trouble_;
  bool ended_ = false;
};

}  // namespace muster::coordinator
