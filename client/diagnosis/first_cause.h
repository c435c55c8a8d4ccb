// What a job failed of first, and what to do. The one place that decides which death was the first:
// today the coordinator's culprit of the attempt, which is the earliest failure that it learned of.
// Pure.
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
  std::vector<uint32_t> ranks;     // those whose last lines tell more
};

// The attempt that the diagnosis is about: the newest one that failed, otherwise the newest. Null: the
// job never had one.
const v1::Attempt* AttemptTold(const v1::JobRecord& job);
// The failures of an attempt, the first one first, each rank once; what Muster stopped comes last.
std::vector<v1::RankExit> DeathsInOrder(const v1::Attempt& attempt);
FirstCause FindFirstCause(const CaseFile& file);

}  // namespace muster::client
