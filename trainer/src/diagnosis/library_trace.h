// The collectives in a communication library's own record (NCCL's: c10d::dump_nccl_trace_json) in
// the form of ours. Nothing in it is relied on: what is missing or odd is left out. Pure.
//
// Source of the format: torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

struct LibraryCollective {
  std::string group;       // the process group's name, with the library's before it
  std::vector<int> ranks;  // of the run, where the record says
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
