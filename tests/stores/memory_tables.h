// What a journal in memory leaves behind it: outlives the journals and indexes that are opened on
// it, as a database does.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "coordinator/stores/journal.h"

namespace muster::coordinator {

struct MemoryTables {
  struct Row {
    v1::JobRecord record;
    v1::JobSummary summary;
    int64_t lived_ms = 0;
  };

  std::mutex mutex;  // guards what follows
  uint64_t epoch = 0;
  std::map<uint64_t, v1::Event> events;
  std::optional<v1::Snapshot> snapshot;
  std::map<uint64_t, Row> jobs;
  std::set<uint64_t> removed;  // since the snapshot
};

}  // namespace muster::coordinator
