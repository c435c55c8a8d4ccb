#include "worker/launch/leftovers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "common/text/strings.h"

namespace muster::worker {
namespace {

constexpr size_t kHexDigits = 16;

// Decimal digits up to the next dash, which is consumed too.
template <typename T>
bool EatNumber(std::string_view* text, T* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc() || end == text->data() + text->size() || *end != '-') return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()) + 1);
  return true;
}

bool IsHex(std::string_view text) {
  return text.size() == kHexDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::map<std::string, AttemptMark> FindWanted(
    const common::CgroupHost& cgroups, const std::function<bool(const AttemptMark&)>& wanted) {
  std::map<std::string, AttemptMark> found;
  for (const std::string& text : common::FindMarks(cgroups, "")) {
    const std::optional<AttemptMark> mark = ParseMark(text);
    if (mark && wanted(*mark)) found[text] = *mark;
  }
  return found;
}

}  // namespace

std::optional<AttemptMark> ParseMark(const std::string& text) {
  AttemptMark mark;
  mark.text = text;
  std::string_view rest = text;
  if (!EatNumber(&rest, &mark.job) || !EatNumber(&rest, &mark.attempt)) return std::nullopt;
  if (rest.size() != 2 * kHexDigits + 1 || rest[kHexDigits] != '-') return std::nullopt;
  if (!IsHex(rest.substr(0, kHexDigits)) || !IsHex(rest.substr(kHexDigits + 1)))
    return std::nullopt;
  mark.tag = rest.substr(kHexDigits + 1);
  return mark;
}

absl::StatusOr<std::vector<AttemptMark>> EndMarked(
    const common::CgroupHost& cgroups, const std::function<bool(const AttemptMark&)>& wanted,
    int timeout_ms) {
  std::map<std::string, AttemptMark> ended;
  // Two clean scans: for an instant during execve a process shows no environment.
  for (int clean = 0; clean < 2;) {
    const std::map<std::string, AttemptMark> found = FindWanted(cgroups, wanted);
    clean = found.empty() ? clean + 1 : 0;
    for (const auto& [text, mark] : found) {
      const common::KillResult result =
          common::KillByMark(text, common::MakeAttemptCgroups(cgroups, text), {}, timeout_ms);
      if (!result.empty) {
        return absl::UnavailableError(common::StrCat(text, ": ", result.how));
      }
    }
    ended.insert(found.begin(), found.end());
  }
  std::vector<AttemptMark> marks;
  for (const auto& [text, mark] : ended) marks.push_back(mark);
  return marks;
}

}  // namespace muster::worker
