// last_words: what a rank printed just before its end.
#include "coordinator/core/views/last_words.h"

#include <csignal>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/lines/error_lines.h"

namespace muster::coordinator {

std::vector<std::string> FreshLines(const v1::RankExit& exit) {
  std::vector<std::string> lines = absl::StrSplit(exit.last_lines(), '\n', absl::SkipWhitespace());
  if (exit.has_fresh_lines() && exit.fresh_lines() < lines.size())
    lines.erase(lines.begin(), lines.end() - exit.fresh_lines());
  return lines;
}

std::string LastWords(const v1::RankExit& exit) {
  if (exit.stopped_by_us() || IsSentByPeople(exit.signal())) return "";
  std::vector<std::string> lines =
      absl::StrSplit(exit.error_message(), '\n', absl::SkipWhitespace());
  if (!lines.empty()) return std::string(absl::StripAsciiWhitespace(lines.back()));
  lines = FreshLines(exit);
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (common::ReadsAsError(*line)) return std::string(absl::StripAsciiWhitespace(*line));
  }
  return "";
}

bool IsSentByPeople(int signal) {
  switch (signal) {
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGKILL:
    case SIGTERM:
    case SIGUSR1:
    case SIGUSR2:
      return true;
    default:
      return false;
  }
}

}  // namespace muster::coordinator
