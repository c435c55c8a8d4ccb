#include "client/text/last_lines.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muster::client {

std::string LinesToQuote(const v1::RankExit& exit) {
  if (exit.signal() == 0 || !exit.has_fresh_lines()) return exit.last_lines();
  // Blank lines are not counted.
  std::vector<std::string> lines = absl::StrSplit(exit.last_lines(), '\n', absl::SkipWhitespace());
  if (lines.size() > exit.fresh_lines()) {
    lines.erase(lines.begin(), lines.end() - exit.fresh_lines());
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace muster::client
