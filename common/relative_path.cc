#include "common/relative_path.h"

#include <algorithm>

namespace muster::common {

bool StaysInside(std::string_view path) {
  size_t at = 0;
  while (at <= path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (component.empty() || component == "." || component == "..") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace muster::common
