// Finds out from the records of all ranks which rank the others are waiting for, and where it is.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "client/diagnosis/rank_record.h"

namespace muster::client {

struct HangReport {
  // "rank 1 has not entered all_reduce #12 (4 MiB float32, group default); ranks 0, 2 and 3 wait in
  // it for 12.0 s; rank 1 is in usleep < load_batch < train"
  std::string sentence;
  std::vector<int> suspects;  // the ranks that the sentence names as the cause
  std::string table;          // one line per rank, with a header
};
// `records` in any order, at most one per rank; ranks below `world_size` may be missing.
HangReport MakeHangReport(int world_size, std::vector<RankRecord> records);

}  // namespace muster::client
