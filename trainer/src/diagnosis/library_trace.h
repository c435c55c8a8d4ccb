// Converts a communication library's own record of collectives (NCCL's: c10d::dump_nccl_trace_json)
// to our form. The input is not trusted: missing or odd entries are skipped. Pure.
//
// Source of the format: torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

struct LibraryCollective {
  std::string group;       // the process group's name, prefixed with the library's
  std::vector<int> ranks;  // global ranks, if the record has them
  uint64_t sequence = 0;
  std::string operation;  // "all_reduce"
  std::string dtype;
  std::string carrier;  // "nccl"
  int64_t elements = 0;
  int64_t bytes = 0;
  std::string state;  // "started", "finished", "failed"
  int64_t age_ms = 0;
  int64_t ended_ms_ago = 0;
};

// `now_ns`: the time of the record, nanoseconds since 1970. Oldest first.
std::vector<LibraryCollective> library_collectives(const std::string& trace, int64_t now_ns);

}  // namespace muster
