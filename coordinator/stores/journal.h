// The durable record of everything that happened: a log of events, and now and then a snapshot that
// replaces those before it. Everything else derived from it is a projection (projection.h).
//
// The control loop appends and continues; the journal's own thread groups what is queued into one commit
// and reports which turn is durable. Nothing uncommitted may become visible outside, and a failed commit
// is never skipped. Only one journal at a time commits: a newer one raises the epoch, and every commit of
// an older one fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

struct TurnFacts;  // projection.h

// One turn. Turns are committed in order, each wholly or not at all.
struct JournalRecord {
  uint64_t turn = 0;
  std::shared_ptr<const std::vector<v1::Event>> events;
  // Of the state after this record's events, or after an earlier record's; null: none. The journal may
  // drop what replay no longer needs: events of jobs that were removed before it.
  std::shared_ptr<const v1::Snapshot> snapshot;
  // What projections keep of the turn; null: nothing. Not part of the log: an engine that commits a
  // projection along with the log hands it over, any other ignores it.
  std::shared_ptr<const TurnFacts> facts;
};

inline size_t EventBytesOf(const JournalRecord& record) {
  size_t bytes = 0;
  if (record.events != nullptr) {
    for (const v1::Event& event : *record.events) bytes += event.ByteSizeLong();
  }
  return bytes;
}

// How much memory an append takes until it is committed.
inline size_t PendingBytesOf(const JournalRecord& record) { return 64 + EventBytesOf(record); }

// Receives what replay finds, in this order: snapshot, later events. An error ends the replay;
// DATA_LOSS explains why what was found cannot be what was written.
struct ReplayCallbacks {
  std::function<absl::Status(const v1::Snapshot&)> snapshot;
  std::function<absl::Status(const v1::Event&)> event;
};

// Called on the journal's thread; must only enqueue.
struct JournalCallbacks {
  std::function<void(uint64_t turn)> durable;  // this turn and all before it
  std::function<void(bool full)> disk_full;    // the disk ran full, or has room again
  // Why nothing is committed until a person makes room (the reserve is used up as well) or another process
  // releases what the journal is kept in. Called with each try; OK: it continues.
  std::function<void(const absl::Status&)> stuck;
  std::function<void(const absl::Status&)> failed;  // nothing will be committed any more
};

class Journal {
 public:
  virtual ~Journal() = default;
  // Grows at every start; every commit checks that no other journal has raised it since.
  virtual uint64_t Epoch() const = 0;
  // Of the data directory, made once: distinguishes its nodes' ranks from those of other coordinators.
  virtual std::string ClusterId() const = 0;
  // Where it is kept, in words for a person: its directory.
  virtual std::string Place() const { return "its data directory"; }
  // Before Start; any number of times. DATA_LOSS names the file, the finding and the fix.
  virtual absl::Status Replay(const ReplayCallbacks& sink) = 0;
  virtual void Start(JournalCallbacks observer) = 0;
  // Any thread; never blocks.
  virtual void Append(JournalRecord record) = 0;
  // A caller waits for what cannot be committed for lack of room: the journal uses what it reserves for
  // that. Any thread.
  virtual void UseLastReserve() {}
  // Bytes of events that are appended and not yet committed.
  virtual size_t PendingBytes() const = 0;
  // Commits what is queued and closes. A commit that fails now is returned.
  virtual absl::Status Stop() = 0;
};

}  // namespace muster::coordinator
