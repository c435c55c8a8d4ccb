// What the maintenance commands of a data directory ask of the engine that keeps its durable state: the
// journal, its projections, identities, and the ownership of code. No coordinator runs meanwhile, except
// with Save. Files beside the state (output, metrics, checkpoint files) are handled elsewhere. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/damage.h"
#include "coordinator/stores/blob_uses.h"

namespace muster::coordinator {

struct StateContents {
  std::string cluster_id;
  uint64_t epoch = 0;
  uint64_t last_event = 0;
  uint64_t next_job = 1;
  uint64_t live_jobs = 0;
  uint64_t finished_jobs = 0;
  BlobUses blobs;
};

// How far the numbers of a restored state advance, past all that the lost coordinator may have given out
// since the backup.
struct Advance {
  uint64_t epoch_at_least = 0;
  uint64_t jobs = 0;
  uint32_t attempts = 0;
};

class StateCare {
 public:
  virtual ~StateCare() = default;

  // Its name: "muster.db".
  virtual std::string Name() const = 0;
  virtual bool Exists() const = 0;
  // Nothing was ever written into it, or it does not exist.
  virtual bool IsEmpty() const = 0;
  // FAILED_PRECONDITION: it is gone, although jobs have left files beside it.
  virtual absl::Status RefuseLost() const = 0;

  struct Checked {
    std::optional<StateContents> contents;  // none: parts of it cannot be read
    bool can_mend = false;
  };
  // Reads everything and changes nothing. Damage goes to `found`; an error: it could not be read.
  virtual absl::StatusOr<Checked> Check(bool quick, const OnDamage& found) const = 0;
  // After a check that has read it whole: repairs what can be repaired without losing anything. Returns
  // what was repaired, where and how, as a finding without a fix.
  virtual absl::StatusOr<Damage> Mend(const StateContents& contents) const = 0;

  // Writes a consistent copy in one file, while a coordinator may use the state; not synced. All of it is
  // read back. RESOURCE_EXHAUSTED: no room at `to`.
  virtual absl::StatusOr<StateContents> Save(const std::string& to) const = 0;
  // For a new data directory. First `Load` a saved copy, which lies under its Name() in the directory
  // `stage`, and advance its numbers; then, once everything else is in place, `Adopt` it: before that no
  // coordinator starts on it.
  virtual absl::StatusOr<StateContents> Load(const std::string& stage,
                                             const Advance& advance) const = 0;
  virtual absl::Status Adopt(const std::string& stage) const = 0;
};

}  // namespace muster::coordinator
