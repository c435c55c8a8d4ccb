// error_lines: phrases that failures print, and harmless ones that resemble them.
#include "common/lines/error_lines.h"

#include <cctype>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/lines/line_prefix.h"

namespace muster::common {
namespace {

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The first occurrence of `word` as a whole word, and the text around it.
struct WordPlace {
  bool found = false;
  std::string_view before;
  std::string_view behind;
};
WordPlace FindWord(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if (at > 0 && IsWordCharacter(line[at - 1]) && IsWordCharacter(word.front())) continue;
    if (end < line.size() && IsWordCharacter(line[end]) && IsWordCharacter(word.back())) continue;
    return {true, line.substr(0, at), line.substr(end)};
  }
  return {};
}
bool Holds(std::string_view line, std::string_view text) { return line.find(text) != line.npos; }
bool HoldsWord(std::string_view line, std::string_view word) { return FindWord(line, word).found; }

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool HasGlogLevel(std::string_view line, std::string_view levels) {
  return levels.find(GlogLetter(line)) != levels.npos;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) ||
                           (text.size() > 1 && (text[0] == '-' || text[0] == '.') &&
                            std::isdigit(static_cast<unsigned char>(text[1]))));
}

// "error: 0", "error=0.25", "error rate 3 %", "error: none": a count or a measurement.
bool IsMeasured(std::string_view behind) {
  while (!behind.empty() && std::string_view(" \t:=").find(behind[0]) != behind.npos) {
    behind.remove_prefix(1);
  }
  for (const std::string_view word : {"none", "no", "null", "false", "ok"}) {
    if (behind == word) return true;
  }
  return behind.starts_with("rate") || behind.starts_with("count") || IsNumber(behind);
}

// "MeanSquaredError: 0.25" is a metric; "KeyError: 3" and "HTTPError: 404 …" are exceptions.
bool IsFraction(std::string_view behind) {
  behind = Trimmed(behind.substr(1));
  return behind.find_first_not_of("0123456789.+-e") == behind.npos && Holds(behind, ".");
}

// "no error", "0 errors", "non-fatal".
bool IsDenied(std::string_view before) {
  before = Trimmed(before);
  for (const std::string_view word : {"no", "0", "non-", "not", "without", "zero"}) {
    if (before.ends_with(word) && (before.size() == word.size() ||
                                   !IsWordCharacter(before[before.size() - word.size() - 1]))) {
      return true;
    }
  }
  return false;
}

// A log level or message kind: at the start of the line or after punctuation, not inside a sentence
// ("validation error: 0.25").
bool IsLevel(std::string_view before) {
  before = Trimmed(before);
  return before.empty() || std::string_view(":])|-").find(before.back()) != before.npos;
}

// "ValueError: …", "torch.OutOfMemoryError: …", "KeyboardInterrupt", "ncclSystemError: …".
bool NamesException(std::string_view line) {
  size_t end = 0;
  while (end < line.size() && (IsWordCharacter(line[end]) || line[end] == '.')) ++end;
  const std::string_view name = line.substr(0, end);
  const bool alone = end == line.size();
  if (!alone && line[end] != ':') return false;
  if (name == "KeyboardInterrupt" || name == "SystemExit") return true;
  for (const std::string_view ending : {"Error", "Exception"}) {
    if (!name.ends_with(ending) || name.size() == ending.size()) continue;
    return alone || !IsFraction(line.substr(end));
  }
  return false;
}

bool IsProgressOrWarning(std::string_view line, std::string_view lower) {
  for (const char* level : {"warning", "warn", "deprecated", "deprecationwarning"}) {
    if (HoldsWord(lower, level)) return true;
  }
  // Errors mention these too: "Segmentation fault (debug build)".
  for (const char* level : {"info", "debug"}) {
    if (const WordPlace place = FindWord(lower, level); place.found && IsLevel(place.before)) {
      return true;
    }
  }
  if (HoldsWord(line, "INFO") || HoldsWord(line, "DEBUG")) return true;
  return HasGlogLevel(line, "WID") || Holds(lower, "warning:") || Holds(lower, "%|") ||
         Holds(lower, "it/s");
}

constexpr std::string_view kSaidOfFailures[] = {
    "terminate called",
    "segmentation fault",
    "bus error",
    "floating point exception",
    "illegal instruction",
    "core dumped",
    "panicked at",
    "assertion failed",
    "check failed",
    "out of memory",
    "oom-kill",
    "cannot allocate memory",
    "no space left on device",
    "command not found",
    "no such file or directory",
    "permission denied",
    "cuda error",
    "nccl error",
    "hip error",
    "hccl error",
    "acl error",
    "npu error",
    "mpi error",
    "undefined symbol",
    "cannot open shared object file",
    "stack smashing detected",
    "double free",
    "addresssanitizer",
    "threadsanitizer",
    "undefinedbehaviorsanitizer",
    "unhandled exception",
    "uncaught exception",
    "syntax error",
    "core dump",
};

}  // namespace

bool ReadsAsError(std::string_view whole) {
  // After a carriage return, judge only what a terminal would still show.
  whole = Trimmed(whole.substr(whole.find_last_of('\r') + 1));
  const std::string_view line = Trimmed(WithoutRankPrefix(whole));
  if (NamesException(line) || line.starts_with("what():")) return true;
  std::string lower(line);
  absl::AsciiStrToLower(&lower);
  if (HasGlogLevel(line, "EF")) return true;
  if (IsProgressOrWarning(line, lower)) return false;
  for (const std::string_view said : kSaidOfFailures) {
    if (HoldsWord(lower, said)) return true;
  }
  if (const WordPlace assertion = FindWord(lower, "assertion"); assertion.found) {
    if (HoldsWord(assertion.behind, "failed")) return true;
  }
  if (const WordPlace error = FindWord(lower, "error"); error.found && !IsMeasured(error.behind)) {
    if (IsLevel(error.before) && !IsDenied(error.before)) return true;
    if (HoldsWord(line, "ERROR")) return true;  // a level after a timestamp
  }
  if (const WordPlace fatal = FindWord(lower, "fatal"); fatal.found) {
    return !IsDenied(fatal.before) && !IsMeasured(fatal.behind);
  }
  if (const WordPlace panic = FindWord(lower, "panic:"); panic.found) return IsLevel(panic.before);
  // How a shell reports a killed child: "run.sh: line 3: 12345 Killed    python train.py".
  for (const char* word : {"Killed", "Aborted", "Terminated"}) {
    if (line == word || Holds(line, absl::StrCat(" ", word, "  "))) return true;
  }
  return false;
}

}  // namespace muster::common
