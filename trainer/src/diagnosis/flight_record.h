// A rank's record as text: the JSON of flight-rank-RRRRR.json and of the line to the worker, stacks
// for people, and one sentence for the log. Pure. docs/profiling.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "diagnosis/collective_log.h"
#include "diagnosis/native_stacks.h"

namespace muster {

struct FlightRecord {
  int rank = 0;
  int world_size = 1;
  int64_t pid = 0;
  int64_t time_ms = 0;  // UTC
  std::string host;
  std::string reason;
  CollectiveLog::Snapshot collectives;
  std::vector<ThreadStack> threads;
  std::map<std::string, std::string> library_traces;  // JSON, by CollectiveLog's names
};

// The complete record, for the file.
std::string full_json(const FlightRecord& record);
// One line of at most 64 KiB: the newest collectives of each group, and as many stacks as fit, the
// training thread's first.
std::string compact_json(const FlightRecord& record);
std::string stacks_text(const FlightRecord& record);
// "rank 1: in usleep < load_batch; all_reduce #11 (…) ended 12.0 s ago"
std::string sentence(const FlightRecord& record);

// The thread that started the newest collective, else the main thread: an index into `threads`, or
// its size if there is none.
size_t training_thread(const FlightRecord& record);

}  // namespace muster
