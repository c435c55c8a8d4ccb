#include "coordinator/core/outcome/lasting_failure.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "coordinator/core/views/last_words.h"

namespace muster::coordinator {
namespace {

constexpr int kAnyCode = -1;
constexpr int kUsage = 2;            // Python's and argparse's
constexpr int kCannotExecute = 126;  // these two are a shell's
constexpr int kNotFound = 127;

struct LastingFailure {
  int exit_code;
  std::string_view words;  // in the last line
  bool begins;             // the line with them, as exceptions do
  std::string_view why;
};

constexpr LastingFailure kLastingFailures[] = {
    {kNotFound, "not found", false, "the command would be missing again"},
    {kNotFound, "No such file or directory", false, "the command would be missing again"},
    {kNotFound, "error while loading shared libraries", false,
     "the library would be missing again"},
    {kCannotExecute, "Permission denied", false, "the file would not be executable again"},
    {kCannotExecute, "Exec format error", false, "the file is not a program of this machine"},
    {kUsage, "can't open file", false, "the script would be missing again"},
    {kUsage, "error: unrecognized arguments", false, "the command line would be the same"},
    {kUsage, "error: the following arguments are required", false,
     "the command line would be the same"},
    {kUsage, "error: argument ", false, "the command line would be the same"},
    {kAnyCode, "ModuleNotFoundError:", true, "the module would be missing again"},
    {kAnyCode, "SyntaxError:", true, "the program would be the same"},
    {kAnyCode, "IndentationError:", true, "the program would be the same"},
    {kAnyCode, "TabError:", true, "the program would be the same"},
};

// The last line that it printed, even if that line does not read as an error, like dash's "sh: 1:
// x: not found".
std::string LastLine(const v1::RankExit& exit) {
  if (std::string words = LastWords(exit); !words.empty()) return words;
  const std::vector<std::string> lines =
      absl::StrSplit(exit.last_lines(), '\n', absl::SkipWhitespace());
  return lines.empty() ? "" : lines.back();
}

// PyTorch puts "[rank0]: " before a rank's lines.
bool BeginsWith(std::string_view line, std::string_view words) {
  const size_t prefix = line.starts_with("[rank") ? line.find("]: ") : line.npos;
  if (prefix != line.npos) line.remove_prefix(prefix + 3);
  return line.starts_with(words);
}

}  // namespace

std::string_view WhyItWouldRecur(const v1::RankExit& exit) {
  if (exit.signal() != 0 || exit.exit_code() == 0) return "";
  const std::string line = LastLine(exit);
  for (const LastingFailure& each : kLastingFailures) {
    if (each.exit_code != kAnyCode && each.exit_code != exit.exit_code()) continue;
    const bool has_words =
        each.begins ? BeginsWith(line, each.words) : line.find(each.words) != line.npos;
    if (has_words) return each.why;
  }
  return "";
}

}  // namespace muster::coordinator
