#include "common/lines/line_prefix.h"

#include <algorithm>

namespace muster::common {

std::string_view WithoutRankPrefix(std::string_view line) {
  if (!line.starts_with("[rank")) return line;
  const size_t end = line.find("]:");
  return end == line.npos || end > sizeof "[rank99999" ? line : line.substr(end + 2);
}

char GlogLetter(std::string_view line) {
  if (line.starts_with('[')) line.remove_prefix(1);
  const bool is_dated =
      line.size() > 5 && line[5] == ' ' &&
      std::all_of(&line[1], &line[5], [](char c) { return c >= '0' && c <= '9'; });
  return is_dated ? line[0] : '\0';
}

}  // namespace muster::common
