#include "common/files/mount_info.h"

#include <utility>

#include "common/files/cgroup_files.h"

namespace muster::common {
namespace {

// Blanks and the like are written in octal: "\040".
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_octal = text[i] == '\\' && i + 3 < text.size();
    if (!is_octal) {
      plain += text[i];
      continue;
    }
    plain +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return plain;
}

// Takes the next word off the text; empty at its end.
std::string_view NextWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(word.size() < text->size() ? word.size() + 1 : word.size());
  return word;
}

// ID PARENT DEVICE ROOT POINT OPTIONS [FIELDS…] - TYPE SOURCE OPTIONS.
bool ParseLine(std::string_view line, MountEntry* entry) {
  const size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return false;
  std::string_view before = line.substr(0, dash), behind = line.substr(dash + 3);
  NextWord(&before);
  NextWord(&before);
  entry->device = NextWord(&before);
  entry->root = Unescape(NextWord(&before));
  entry->point = Unescape(NextWord(&before));
  entry->type = NextWord(&behind);
  return !entry->point.empty() && !entry->type.empty();
}

}  // namespace

std::vector<MountEntry> ParseMountInfo(std::string_view text) {
  std::vector<MountEntry> entries;
  std::string line;
  while (NextLine(&text, &line)) {
    if (MountEntry entry; ParseLine(line, &entry)) entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace muster::common
