// Ranks in sentences. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::client {

// "rank 1", "ranks 0, 2 and 3", "ranks 0 to 6 and 8"
std::string RanksText(const std::vector<int>& ranks);
// `one` for a single rank, otherwise `several`.
const char* Verb(const std::vector<int>& ranks, const char* one, const char* several);

}  // namespace muster::client
