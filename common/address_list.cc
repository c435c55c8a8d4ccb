#include "common/address_list.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace muster::common {

std::string JoinAddresses(const std::vector<std::string>& addresses) {
  return absl::StrJoin(addresses, ",");
}

std::vector<std::string> MergeAddresses(const std::vector<std::string>& first,
                                        const std::vector<std::string>& second, size_t most) {
  std::vector<std::string> merged;
  for (const std::vector<std::string>* some : {&first, &second}) {
    for (const std::string& address : *some) {
      const bool is_new = std::find(merged.begin(), merged.end(), address) == merged.end();
      if (is_new && merged.size() < most) merged.push_back(address);
    }
  }
  return merged;
}

}  // namespace muster::common
