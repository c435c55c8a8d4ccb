// The first cause of a job's failure, and what to do. The first death is the attempt's culprit, which the
// coordinator has judged. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/diagnosis/case_file.h"

namespace muster::client {

struct FirstCause {
  std::string kind;  // "out_of_memory", "missing_file", …: for programs
  std::string sentence;
  std::vector<std::string> evidence;
  std::vector<std::string> fixes;  // one or two; a command, with a comment after "#"
  std::vector<uint32_t> ranks;     // those whose last lines the report shows
};

// The attempt that the diagnosis is about: for a failed job the newest one with a culprit, otherwise the
// newest. Null: the job never had one.
const v1::Attempt* AttemptTold(const v1::JobRecord& job);
// The failures of an attempt, the first one first, each rank once; ranks that Muster stopped come
// last.
std::vector<v1::RankExit> DeathsInOrder(const v1::Attempt& attempt);
FirstCause FindFirstCause(const CaseFile& file);

}  // namespace muster::client
