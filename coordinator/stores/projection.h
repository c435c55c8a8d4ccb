// A projection keeps data from the journal in a form that answers queries; the index of finished jobs is
// one. Only the journal is authoritative; a projection is derived from it.
//
// An engine whose journal and projection share a database commits both at once (it carries the
// projection). Any other projection follows by its position: FollowedJournal gives it each turn once the
// journal has it, hides a turn until the projection has it, and after a crash first brings it up to the
// end of the journal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/stores/journal.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// What listing and lookup need of a finished job, and its whole record.
struct FinishedJob {
  std::shared_ptr<const v1::JobRecord> record;
  v1::JobSummary summary;
};

// What a turn's events mean to projections.
struct TurnFacts {
  std::vector<FinishedJob> finished;  // in this turn, or earlier and recorded again
  int64_t lived_ms = 0;  // Now::lived_ms of the turn: from then on a finished job grows old
  std::vector<uint64_t> removed_jobs;
};

// One thread at a time.
class Projection {
 public:
  virtual ~Projection() = default;
  // Its name for a person, and where it is: "the index /data/index.db".
  virtual std::string Place() const = 0;
  // Of the last event whose turn it has; 0: it has none.
  virtual absl::StatusOr<uint64_t> Position() = 0;
  // Takes turns that follow the ones it has, in order: durable when it returns, all of them or none. With
  // an error of shortage.h it is tried again.
  virtual absl::Status Take(const std::vector<JournalRecord>& turns) = 0;
};

}  // namespace muster::coordinator
