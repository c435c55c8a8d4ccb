// The durable record of everything that happened: append-only events, snapshots, finished jobs.
//
// The control loop appends and goes on; the journal groups what is queued into one commit on a
// thread of its own and says which turn is durable. Nothing that was not committed may become
// visible outside, and a failed commit is never passed over. Only one journal at a time commits: a
// newer one raises the epoch, and every commit of an older one fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// What listing and lookup need of a finished job, and its whole record.
struct FinishedJob {
  std::shared_ptr<const v1::JobRecord> record;
  v1::JobSummary summary;
};

// One turn's facts. Turns are committed in order, each wholly or not at all.
struct JournalRecord {
  uint64_t turn = 0;
  std::shared_ptr<const std::vector<v1::Event>> events;
  std::vector<FinishedJob> finished;
  int64_t lived_ms = 0;  // Now::lived_ms of the turn: from then on a finished job grows old
  std::vector<uint64_t> removed_jobs;
  std::shared_ptr<const v1::Snapshot> snapshot;  // of the state after this record's events, or null
};

// Where replay puts what it finds, in this order: snapshot, keys of finished jobs, later events. An
// error ends the replay; DATA_LOSS says why what was found cannot be what was written.
struct ReplayCallbacks {
  std::function<absl::Status(const v1::Snapshot&)> snapshot;
  std::function<void(const std::string& owner, const std::string& key, uint64_t job,
                     uint64_t spec_hash)>
      key;
  std::function<absl::Status(const v1::Event&)> event;
};

// Called on the journal's thread; must only enqueue.
struct JournalCallbacks {
  std::function<void(uint64_t turn)> durable;  // this turn and all before it
  std::function<void(bool full)> disk_full;    // the disk ran full, or has room again
  // Why nothing is committed before somebody makes room (the reserve is used up as well) or lets go of
  // what the journal is kept in. Said again with each try; OK: it goes on.
  std::function<void(const absl::Status&)> stuck;
  std::function<void(const absl::Status&)> failed;  // nothing will be committed any more
};

class Journal {
 public:
  virtual ~Journal() = default;
  // Grows at every start; every commit checks that nobody has raised it since.
  virtual uint64_t Epoch() const = 0;
  // Of the data directory, made once: tells its nodes' ranks from those of other coordinators.
  virtual std::string ClusterId() const = 0;
  // What a person calls the place where it is kept: its directory.
  virtual std::string Place() const { return "its data directory"; }
  // Before Start. DATA_LOSS names the file, the finding and the fix.
  virtual absl::Status Replay(const ReplayCallbacks& sink) = 0;
  virtual void Start(JournalCallbacks observer) = 0;
  // Any thread; never blocks.
  virtual void Append(JournalRecord record) = 0;
  // Somebody waits for what cannot be committed for lack of room: whatever is kept for that is used.
  // Any thread.
  virtual void UseLastReserve() {}
  // Bytes of events that are appended and not yet committed.
  virtual size_t PendingBytes() const = 0;
  // Commits what is queued and closes. A commit that fails now is returned.
  virtual absl::Status Stop() = 0;
};

}  // namespace muster::coordinator
