// Finished jobs and past events, for queries: a projection of the journal (projection.h). A job or an
// event is found here once the journal has reported its turn as durable, never before; removed ones are
// no longer found.
//
// Any thread. May be slow or remote: called on the work pool's threads, never on gRPC's or the
// control loop's. An error means that the store is unreachable or damaged; "there is none" is an
// empty answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/labels.h"
#include "coordinator/base/retention.h"
#include "coordinator/core/state/input.h"
#include "coordinator/stores/code_store.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

class JobIndex {
 public:
  virtual ~JobIndex() = default;

  struct NamedJob {
    uint64_t id = 0;
    std::string name;
  };
  struct Filter {
    std::vector<v1::JobState> states;    // empty: all
    std::string owner;                   // a name, of every person who has or had it; empty: all
    std::string owner_key;               // OwnerKey: only of this person; empty: all
    std::vector<job::LabelTerm> labels;  // all must be met
    std::string name_has;                // part of its name
    std::string project;                 // empty: all
    int64_t finished_since_ms = 0;
    uint64_t before_id = 0;  // 0: no bound
    uint32_t limit = 0;
  };
  struct EventRange {
    uint64_t job = 0;     // 0: all
    std::string node;     // empty: all
    uint64_t after = 0;   // seq
    uint64_t until = 0;   // seq, inclusive
    uint32_t newest = 0;  // the newest N of them
    size_t bytes = 0;  // if set: the oldest of them instead, up to this many bytes and at least one
  };

  // The idempotency keys of all finished jobs.
  using KeySink = std::function<void(const std::string& owner_key, const std::string& key,
                                     uint64_t job, uint64_t spec_hash)>;
  virtual absl::Status Keys(const KeySink& sink) = 0;
  // FAILED_PRECONDITION, JC1632: it has left the state (archive.h), and another coordinator has it.
  virtual absl::StatusOr<std::optional<v1::JobRecord>> Find(uint64_t id) = 0;
  // Only id, name, owner, idempotency key and state: all that is asked of many jobs at once.
  virtual absl::StatusOr<std::optional<v1::JobRecord>> FindIdentity(uint64_t id) = 0;
  virtual absl::StatusOr<std::optional<uint64_t>> FindNamed(const std::string& name) = 0;
  // At most two finished jobs that were submitted under this label: "train" of train-7.
  virtual absl::StatusOr<std::vector<uint64_t>> FindLabeled(const std::string& label) = 0;
  // At most `limit` jobs whose name begins with `prefix`.
  virtual absl::StatusOr<std::vector<NamedJob>> FindPrefix(const std::string& prefix,
                                                           uint32_t limit) = 0;
  // The owner's (OwnerKey) newest finished job; 0: none.
  virtual absl::StatusOr<uint64_t> Newest(const std::string& owner_key) = 0;
  // All finished jobs with their owners (OwnerKey).
  virtual absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> Owners() = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<v1::JobSummary>> List(const Filter& filter) = 0;
  virtual absl::StatusOr<std::vector<v1::Event>> Events(const EventRange& range) = 0;
  // Where the newest N of the range begin, to read them in pieces: Events returns them if its `after` is this
  // one. Ignores `bytes`.
  virtual absl::StatusOr<uint64_t> BeforeNewest(const EventRange& range) = 0;
  // Finished jobs by the coordinator's lived time at their end.
  virtual absl::StatusOr<FinishedCounts> CountFinished(int64_t ended_before_ms,
                                                       int64_t ended_after_ms) = 0;
  // The finished jobs that ended first, by the same time.
  virtual absl::StatusOr<std::vector<RemoveInput::Job>> Oldest(uint32_t count) = 0;
  // The blobs among these that a finished job refers to.
  virtual absl::StatusOr<std::vector<std::string>> Referenced(
      const std::vector<std::string>& blobs) = 0;
  virtual absl::StatusOr<std::vector<std::string>> BlobsOf(uint64_t job) = 0;
  // Whether a finished job has this code.
  virtual absl::StatusOr<bool> HasCode(const CodeName& code) = 0;
  // Reads everything that is stored; OK when it is sound. May take minutes.
  virtual absl::Status CheckWhole() = 0;
  // Whether the coordinator has to call CheckWhole now and then: the engine does not check itself.
  virtual bool NeedsWholeCheck() = 0;
};

}  // namespace muster::coordinator
