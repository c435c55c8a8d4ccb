// How long earlier jobs of the same name took, for jobs without an estimate. Not journaled: what a coordinator has seen
// end since it started.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

class EarlierRuns {
 public:
  // Of jobs with the same owner, project, name and number of ranks: the newest one counts half, the one before a
  // quarter, and so on. Milliseconds, with what its nodes did before its ranks ran. nullopt: none is known, or a person gave the job no name.
  std::optional<int64_t> Find(const v1::JobRecord& job) const;
  // A job has succeeded.
  void Learn(const v1::JobRecord& job);

 private:
  std::unordered_map<std::string, int64_t> ms_;
  std::deque<std::string> names_;  // the keys, the oldest first
};

}  // namespace muster::coordinator
