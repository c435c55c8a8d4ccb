// Finds TensorBoard event files of one attempt and turns their new records into metric batches: one
// batch a record, its seq the file offset behind the record, so that a record counts once whatever
// restarts. One thread at a time; a Scan blocks for directory listings and reading, both bounded;
// files take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"

namespace muster::worker {

struct TailRoot {
  std::string path;
  std::string prefix;  // put before names relative to path: "runs/"
  bool shared =
      false;  // also other programs' files may appear here: only new ones of this attempt count
};

class EventTailer {
 public:
  struct Doors {
    // Where the file's records go on: the highest seq known for the source on any rank, and that
    // rank. {0, -1}: unknown.
    std::function<std::pair<uint64_t, int64_t>(const std::string& source)> known;
    // False: not taken (no space); the record is read again by the next scan.
    std::function<bool(uint32_t rank, v1::MetricBatch)> batch;
    std::function<void(const std::string&)> note;
  };

  // Files that began before `since_ms` (Unix) in shared roots are not ours.
  EventTailer(AttemptKey key, std::vector<TailRoot> roots, int64_t since_ms, uint32_t default_rank,
              Doors doors);

  void SetPid(uint32_t rank, int64_t pid) { ranks_[pid] = rank; }
  // The records of this source behind `offset` were not taken after all: they are read again.
  void Rewind(const std::string& source, uint64_t offset);
  // One look, as far as its bounds reach. True when something is left to read.
  bool Scan();

 private:
  struct File {
    std::string path;
    std::string source;
    uint64_t offset = 0;
    uint32_t rank = 0;
    bool ignored = false;
  };
  // What one look may still cost.
  struct Bounds {
    size_t entries = 0;  // of directories
    size_t peeks = 0;    // into files that may not be ours
    size_t bytes = 0;
  };
  void Find(const TailRoot& root, const std::string& relative, int depth, Bounds& bounds);
  void Adopt(const TailRoot& root, const std::string& relative, Bounds& bounds);
  bool IsOurs(const std::string& path) const;
  // True when the bounds ended before the file did.
  bool Read(File& file, Bounds& bounds);
  // How many of `bytes` were used up; the file is left when they are broken.
  size_t TakeRecords(File& file, std::string_view bytes);
  void Leave(File& file, const absl::Status& reason);

  const AttemptKey key_;
  const std::vector<TailRoot> roots_;
  const int64_t since_ms_;
  const uint32_t default_rank_;
  const Doors doors_;
  std::map<std::string, File> files_;  // by path
  std::map<int64_t, uint32_t> ranks_;  // by pid
  std::string turn_;                   // the file that the last look ended with
  bool entries_noted_ = false;
};

// The pid in "events.out.tfevents.<time>.<host>.<pid>.<n>", or 0.
int64_t PidInEventFileName(const std::string& name);

}  // namespace muster::worker
