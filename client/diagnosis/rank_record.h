// What one rank was doing at one moment, as it recorded it (docs/profiling.md). Untrusted. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

struct RankRecord {
  struct Group {
    std::string name;
    std::vector<int> ranks;  // of the run; together with the name, identifies the group
    uint64_t started = 0;    // collectives started on this rank
  };
  struct Collective {
    std::string group;
    std::vector<int> ranks;
    uint64_t sequence = 0;  // of the group, from 1
    std::string operation;
    std::string dtype;
    int64_t bytes = 0;
    bool runs = false;  // running, or failed while this rank waited in it for others
    bool failed = false;
    int64_t age_ms = 0;        // since its start
    int64_t ended_ms_ago = 0;  // when it has ended
  };
  struct Thread {
    int64_t id = 0;
    std::string name;
    std::string problem;              // why there are no frames
    std::vector<std::string> frames;  // innermost first
  };

  // For a rank that did not answer and that its node's worker inspected.
  struct Outside {
    bool seen = false;
    int64_t pid = 0;
    std::string program;
    std::string doing;  // "waits in futex", "is stopped by a signal"
    double cpu_seconds = 0;
    std::string frames;   // where they come from: "py-spy", "libdw", "none"
    std::string problem;  // what could not be read, and the fix
  };

  int rank = 0;
  int world_size = 0;
  std::string host;
  std::string reason;  // why it was written
  int64_t time_ms = 0;
  std::string place;  // where the training thread is: "usleep < load_batch < train"
  std::vector<Group> groups;
  std::vector<Collective> collectives;  // oldest first
  std::vector<Thread> threads;
  Outside outside;
};

// INVALID_ARGUMENT if it is not a record.
absl::StatusOr<RankRecord> ParseRankRecord(std::string_view json);

// All threads' stacks of one rank.
std::string StacksText(const RankRecord& record);

}  // namespace muster::client
