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
  // Takes the entry at `position`, which follows the ones it has. Whole or not at all. DATA_LOSS: the copy is not
  // what the entry was made for.
  virtual absl::Status Apply(uint64_t position, std::string_view changes) = 0;
};

}  // namespace muster::coordinator
