#include "tree/ignore.h"

#include <algorithm>
#include <iterator>

namespace muster::tree {

std::vector<IgnorePattern> ParseIgnoreFile(std::string_view content) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
  std::vector<IgnorePattern> patterns;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    // Like git, which adds a line break to the end of the file, so that a carriage return there
    // does not count either.
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (auto pattern = IgnorePattern::Parse(line)) patterns.push_back(*std::move(pattern));
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return patterns;
}

void IgnoreRules::Enter(std::string_view directory, std::string_view gitignore,
                        std::string_view musterignore) {
  Level level;
  level.base_bytes = directory.empty() ? 0 : directory.size() + 1;
  level.patterns = ParseIgnoreFile(gitignore);
  std::vector<IgnorePattern> ours = ParseIgnoreFile(musterignore);
  std::move(ours.begin(), ours.end(), std::back_inserter(level.patterns));
  levels_.push_back(std::move(level));
}

bool IgnoreRules::Ignores(std::string_view path, bool is_directory) const {
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    const std::string_view below = path.substr(level->base_bytes);
    const auto found = std::find_if(
        level->patterns.rbegin(), level->patterns.rend(),
        [&](const IgnorePattern& pattern) { return pattern.Matches(below, is_directory); });
    if (found != level->patterns.rend()) return !found->negative();
  }
  return false;
}

}  // namespace muster::tree
