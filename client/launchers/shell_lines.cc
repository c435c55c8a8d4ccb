#include "client/launchers/shell_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/launchers/launchers.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

std::vector<std::string> WordsOf(std::string_view text) {
  return absl::StrSplit(common::ToAbsl(text), absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

// One command of a line, without the words of the shell's grammar before it.
bool DoesNothing(std::string_view command) {
  std::vector<std::string> words = WordsOf(command);
  const auto is_grammar = [](const std::string& word) {
    return IsOneOf(word, {"if", "elif", "while", "until", "then", "else", "do", "!", "{", "("});
  };
  words.erase(words.begin(), std::find_if_not(words.begin(), words.end(), is_grammar));
  if (words.empty() || IsOneOf(words[0], {"fi", "done", "esac", "}", ")", "for"})) return true;
  const std::string& first = words[0];
  // An assignment does not matter if the command does not read the variable; if it does, the
  // variable is looked up.
  const size_t equals = first.find('=');
  const bool is_assignment =
      equals != std::string::npos && equals > 0 &&
      std::all_of(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(equals), IsNameByte);
  if (is_assignment)
    return words.size() == 1 || first[equals + 1] == '$' || first[equals + 1] == '"';
  return IsOneOf(
      ProgramName(first),
      {"set",        "shopt",   "echo",   "printf",   "date", "hostname", "pwd",     "which",
       "nvidia-smi", "npu-smi", "uname",  "printenv", "free", "lscpu",    "sleep",   "wait",
       "exit",       "true",    ":",      "[",        "[[",   "test",     "nproc",   "nvcc",
       "type",       "id",      "whoami", "ls",       "df",   "cat",      "scontrol"});
}

}  // namespace

bool SetsUpShell(std::string_view text) {
  const std::vector<std::string> words = WordsOf(text);
  if (words.size() < 2) return words == std::vector<std::string>{"cd"};
  // An export may compute its value: "export OMP_NUM_THREADS=$(nproc)".
  const bool computes = text.find("$(") != std::string_view::npos;
  const bool is_plain = text.find_first_of(computes ? ";&<>`" : ";|&<>`") == std::string_view::npos;
  if (!is_plain || (computes && words[0] != "export")) return false;
  if (words[0] == "conda") return IsOneOf(words[1], {"activate", "deactivate"});
  return IsOneOf(words[0], {"module", "ml", "source", ".", "export", "cd"});
}

bool DoesNothingThatLasts(std::string_view text) {
  const std::string line = absl::StrReplaceAll(
      common::ToAbsl(text),
      {{"2>&1", ""}, {">&2", ""}, {"&>/dev/null", ""}, {">/dev/null", ""}, {"> /dev/null", ""}});
  if (line.find_first_of("<>") != std::string::npos) return false;
  for (const absl::string_view command : absl::StrSplit(line, absl::ByAnyChar(";&|"))) {
    if (!DoesNothing(common::FromAbsl(command))) return false;
  }
  return true;
}

std::string ShellOf(std::string_view content) {
  absl::string_view line = common::ToAbsl(content.substr(0, content.find('\n')));
  if (!absl::ConsumePrefix(&line, "#!")) return "";
  std::vector<std::string> words = WordsOf(common::FromAbsl(line));
  if (!words.empty() && ProgramName(words[0]) == "env") words.erase(words.begin());
  if (words.empty()) return "";
  return IsOneOf(ProgramName(words[0]), {"bash", "sh", "dash", "ksh", "zsh"}) ? words[0] : "";
}

std::vector<std::string> BehindLines(const std::string& shell,
                                     const std::vector<std::string>& lines,
                                     const std::vector<std::string>& command) {
  std::vector<std::string> words = {
      shell, "-l", "-c", common::StrCat(absl::StrJoin(lines, "\n"), "\nexec \"$@\""), shell};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace muster::client
