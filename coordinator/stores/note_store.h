// Short texts that the coordinator keeps for its next start, each replaced as a whole. One thread at a
// time per note.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

enum class Note {
  kNotify,  // the last event that notify has processed, and what it still has to send (notify/notifier.h)
  kLived,  // the coordinator's total uptime (lived_clock.h)
  // Only where several coordinators share them (stores/leading.h): what HTTP's sessions are signed with, and what
  // a scraper presents.
  kHttpSecret,
  kMetricsSecret,
};

class NoteStore {
 public:
  virtual ~NoteStore() = default;
  // NOT_FOUND: it was never written.
  virtual absl::StatusOr<std::string> Read(Note note) const = 0;
  // Durable when it returns, and whole after any crash.
  virtual absl::Status Write(Note note, const std::string& text) = 0;
  // Does not wait for the disk: after a crash an older text may be there, or a torn one. For a text that
  // shows whether it is whole, and is written again soon.
  virtual absl::Status WriteSoon(Note note, const std::string& text) = 0;
  // Its name for a person: its path.
  virtual std::string Place(Note note) const = 0;
};

}  // namespace muster::coordinator
