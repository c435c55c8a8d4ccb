// A job's effective metric history: from its first step on, a later attempt replaces what earlier ones
// reported. Pure.
#pragma once

#include <cstdint>
#include <map>

#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

class FollowedLine {
 public:
  // Call it with every batch, in any order, then Seal.
  void Learn(const v1::MetricBatch& batch);
  void Seal();
  bool IsReplaced(uint32_t attempt, int64_t step) const;
  // Whether learning this, too, would leave the line unchanged.
  bool Knows(uint32_t attempt, int64_t step) const;

 private:
  std::map<uint32_t, int64_t> first_steps_;  // by attempt
  std::map<uint32_t, int64_t>
      replaced_from_;  // by attempt: the lowest first step of this and later attempts
};

}  // namespace muster::coordinator
