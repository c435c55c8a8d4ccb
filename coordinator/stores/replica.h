// A coordinator's copy of what the leader commits, while another one leads (commit_log.h). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

class Replica {
 public:
  virtual ~Replica() = default;
  // Of the last entry that it has; 0: none.
  virtual uint64_t Position() const = 0;
  // The log that it follows; empty: none yet.
  virtual const std::string& Log() const = 0;
  // Nothing is in it that does not come from a log.
  virtual bool IsEmpty() const = 0;
  // For one that follows no log yet, and is empty.
  virtual absl::Status Follow(const std::string& log) = 0;
  // It follows no log any more, and has neither notes nor an audit, which a coordinator that is alone keeps elsewhere.
  virtual absl::Status Leave() = 0;
  // Takes the entry at `position`, which follows the ones it has. Whole or not at all. DATA_LOSS: the copy is not
  // what the entry was made for.
  virtual absl::Status Apply(uint64_t position, std::string_view changes) = 0;
};

// Where the copy is kept. Any thread, one call at a time.
class ReplicaHome {
 public:
  virtual ~ReplicaHome() = default;
  // Makes an empty one if there is none. Until it is destroyed no one else uses the copy.
  virtual absl::StatusOr<std::unique_ptr<Replica>> Open() = 0;
  // A file in the same place, for a copy that is being made or received. Removed first, if it is there.
  virtual absl::StatusOr<std::string> Stage() = 0;
  // Writes the state as it is now into one file, also while a coordinator uses it. Returns the position.
  virtual absl::StatusOr<uint64_t> Save(const std::string& to) = 0;
  // Puts a saved copy of this log into place; no replica is open. DATA_LOSS: the file is not what was asked for.
  virtual absl::Status Replace(const std::string& from, const std::string& log,
                               uint64_t position) = 0;
};

}  // namespace muster::coordinator
