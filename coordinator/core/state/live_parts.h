// The parts of live attempts by node, and how many of each attempt's parts are ready, launched or over: a report of one
// part of a large gang, or of one node, costs what it says, not what the gang or the cluster has. Not journaled; kept by
// Apply.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct PartCounts {
  int parts = 0;
  int ready = 0;
  int launched = 0;
  int ended = 0;
  int awaited = 0;  // neither launched nor ended
  int failed = 0;   // ended with a failure, or without the exits of all its ranks

  void Add(const v1::NodePart& part, int change = 1);
  bool operator==(const PartCounts&) const = default;
};

class LiveParts {
 public:
  // By job, the part's place in its live attempt. Parts that ended stay until their attempt ends.
  using OnNode = std::map<uint64_t, int>;

  // The attempt of the job that begins now, or was alive in a snapshot.
  void Add(uint64_t job, const v1::Attempt& attempt);
  // It ends now.
  void Remove(uint64_t job, const v1::Attempt& attempt);

  const OnNode& On(const std::string& node) const;
  // The part's place in the job's live attempt; -1: none.
  int Find(uint64_t job, const std::string& node) const;
  // Null: the job has no live attempt. A change of a part takes it out of the counts and adds it again.
  PartCounts* Counts(uint64_t job);
  const PartCounts* Counts(uint64_t job) const;

  bool operator==(const LiveParts&) const = default;

 private:
  std::unordered_map<std::string, OnNode> on_nodes_;  // none is empty
  std::unordered_map<uint64_t, PartCounts> counts_;
};

}  // namespace muster::coordinator
