#include "common/text/relative_path.h"

#include <algorithm>

namespace muster::common {

bool StaysInside(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return false;
  size_t at = 0;
  while (at <= path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (component.empty() || component == "." || component == "..") return false;
    at = end + 1;
  }
  return true;
}

bool IsWithin(std::string_view path, std::string_view directory) {
  if (path == directory) return true;
  return path.starts_with(directory) &&
         (directory.ends_with('/') ||
          (path.size() > directory.size() && path[directory.size()] == '/'));
}

}  // namespace muster::common
