// Scans one attempt's event files and checkpoint directory. They belong to the job, so a scan may
// hang or find too much: it runs on the attempt's own thread, one scan at a time, each bounded.
// Knows nothing of the I/O thread: orders and findings are values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/v1/worker_service.pb.h"
#include "worker/checkpoints/checkpoint_directory.h"
#include "worker/events/event_tailer.h"

namespace muster::worker {

// By metric source: the highest seq that is safely stored, and its rank.
using KnownSources = std::map<std::string, std::pair<uint64_t, uint32_t>>;

struct ScanOrder {
  std::map<uint32_t, int64_t> pids;  // of ranks that started since the last scan
  std::set<int64_t> rival_pids;      // … and of other attempts' ranks in the same directories
  bool crowded = false;              // such attempts were alive since the last scan
  std::map<std::string, uint64_t> not_taken;  // by source: continue reading from here
  bool final = false;                         // the ranks are dead
};

struct Findings {
  std::vector<std::pair<uint32_t, v1::MetricBatch>> batches;  // with their ranks
  std::vector<FoundStep> steps;
  std::vector<std::string> notes;
  bool more = false;  // the scan stopped at its bound
  bool final = false;
};

class AttemptScanner {
 public:
  struct Setup {
    EventTailer::Setup events;
    std::string checkpoints_dir;
    KnownSources known;
  };
  explicit AttemptScanner(Setup setup);
  Findings Look(const ScanOrder& order);

 private:
  const std::string checkpoints_dir_;
  const KnownSources known_;
  Findings found_;  // of the current scan
  EventTailer tailer_;
  std::set<int64_t> seen_steps_;
};

}  // namespace muster::worker
