// Lists of addresses without duplicates, as people type and files keep them: "a:7700,b:7700". Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::common {

std::string JoinAddresses(const std::vector<std::string>& addresses);
// `first`, then what `second` has besides, without duplicates; at most `most`.
std::vector<std::string> MergeAddresses(const std::vector<std::string>& first,
                                        const std::vector<std::string>& second, size_t most);

}  // namespace muster::common
