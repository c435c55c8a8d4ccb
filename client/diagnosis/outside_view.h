// Explains why a job hangs whose ranks do not use the trainer protocol, from what their nodes'
// workers saw of their processes. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/diagnosis/rank_record.h"

namespace muster::client {

struct OutsideView {
  // Empty if no rank was seen from outside.
  std::string sentence;
  std::vector<int> suspects;  // the ranks that the others most likely wait for
};
OutsideView ViewFromOutside(const std::map<int, RankRecord>& records);
// "; rank 2 is stopped by a signal, in usleep < train" for those of the ranks that were seen.
std::string PlacesFromOutside(const std::map<int, RankRecord>& records,
                              const std::vector<int>& ranks);

}  // namespace muster::client
