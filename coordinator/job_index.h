// Read-only questions about finished jobs and past events, on a connection of its own that never
// writes or checkpoints. Blocks on the disk: called on the work pool's threads, never on gRPC's or
// the control loop's. One question at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/input.h"
#include "coordinator/paths.h"
#include "coordinator/retention.h"
#include "coordinator/sqlite.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

class JobIndex {
 public:
  // After the journal has made the tables.
  static absl::StatusOr<std::unique_ptr<JobIndex>> Open(const Paths& paths);

  struct NamedJob {
    uint64_t id = 0;
    std::string name;
  };
  struct Filter {
    std::vector<v1::JobState> states;  // empty: all
    std::string owner;                 // empty: all
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
  };

  absl::StatusOr<std::optional<v1::JobRecord>> Find(uint64_t id);
  absl::StatusOr<std::optional<uint64_t>> FindNamed(const std::string& name);
  // At most two finished jobs that were submitted under this label: "train" of train-7.
  absl::StatusOr<std::vector<uint64_t>> FindLabelled(const std::string& label);
  // At most `limit` jobs whose name begins with `prefix`.
  absl::StatusOr<std::vector<NamedJob>> FindPrefix(const std::string& prefix, uint32_t limit);
  // The owner's newest finished job; 0: none.
  absl::StatusOr<uint64_t> Newest(const std::string& owner);
  // Newest first.
  absl::StatusOr<std::vector<v1::JobSummary>> List(const Filter& filter);
  absl::StatusOr<std::vector<v1::Event>> Events(const EventRange& range);
  // Finished jobs by the coordinator's lived time at their end.
  absl::StatusOr<FinishedCounts> CountFinished(int64_t ended_before_ms, int64_t ended_after_ms);
  // Those that ended first, by the same time.
  absl::StatusOr<std::vector<RemoveInput::Job>> Oldest(uint32_t count);
  // Which of these blobs a finished job refers to.
  absl::StatusOr<std::vector<std::string>> Referenced(const std::vector<std::string>& blobs);
  absl::StatusOr<std::vector<std::string>> BlobsOf(uint64_t job);
  // The whole file; OK when it is sound. Takes a while on a large one.
  absl::Status CheckWhole();
  bool NeedsWholeCheck();

 private:
  explicit JobIndex(const Paths& paths) : paths_(paths) {}
  const Paths paths_;
  std::mutex mutex_;  // guards the connection
  std::unique_ptr<Database> database_;
};

}  // namespace muster::coordinator
