// Where finished jobs and old entries of the audit go when the state becomes too large for the log that several
// coordinators share: each becomes a blob (blob_store.h; proto/muster/v1/archive.proto). The state keeps what lists,
// lookups by name, label or idempotency key need, and which blob has the rest, so JobIndex and AuditStore answer as
// before.
//
// A coordinator that follows the log makes the same blob of its own rows before it drops them. One that received a
// snapshot made later has no copy: it names the coordinator that has.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

// One thread, not gRPC's or the control loop's: it writes files.
class Archive {
 public:
  virtual ~Archive() = default;
  // What the state takes now.
  virtual absl::StatusOr<uint64_t> StateBytes() = 0;
  // Moves the finished jobs that ended first, and the oldest entries of the audit, until about so many bytes have left
  // the state: durably, each whole or not at all. Returns how many have; 0: nothing more can be moved for now.
  virtual absl::StatusOr<uint64_t> MoveOldest(uint64_t bytes) = 0;
  // FAILED_PRECONDITION, JC1632: something that was moved is not here; names the coordinator that has it.
  virtual absl::Status CheckAllHere() = 0;
};

}  // namespace muster::coordinator
