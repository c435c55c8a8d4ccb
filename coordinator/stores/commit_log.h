// The log that several coordinators of one cluster keep copies of a database by. One of them leads: each of its
// transactions is an entry here before it is committed in its own copy; the others apply the entries to theirs.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

class CommitLog {
 public:
  virtual ~CommitLog() = default;
  // The entry's position, which is greater than that of every earlier one. OK: it is durable, the others will
  // apply it, and the caller must. RESOURCE_EXHAUSTED: the log has no room, and the entry is not in it. Any
  // other error: another coordinator leads, or whether it is there is not known; this process must
  // commit nothing any more, and every later call fails, too. Waits for the network; one thread at a time.
  virtual absl::StatusOr<uint64_t> Append(std::string_view changes) = 0;
  // What was appended last could not be committed here: this process can no longer lead.
  virtual void FailedHere(const absl::Status& why) = 0;
};

}  // namespace muster::coordinator
