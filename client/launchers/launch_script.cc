#include "client/launchers/launch_script.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/command_line/errors.h"
#include "client/launchers/sbatch_options.h"
#include "client/launchers/script_lines.h"
#include "client/launchers/shell_lines.h"
#include "client/launchers/srun_options.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;
using Variables = std::map<std::string, std::string>;

constexpr size_t kLeftOutMax = 50;
// Marks a variable whose value is not known, until it is clear whether the value matters.
constexpr char kUnknownBegin[] = "@unknown-";
constexpr char kUnknownEnd = '@';

// The text as it was written, without marks.
std::string WithoutMarks(std::string text) {
  for (size_t at = text.find(kUnknownBegin); at != std::string::npos;
       at = text.find(kUnknownBegin, at)) {
    text.replace(at, sizeof(kUnknownBegin) - 1, "$");
    if (const size_t end = text.find(kUnknownEnd, at); end != std::string::npos) text.erase(end, 1);
  }
  return text;
}

// Replaces $NAME and ${NAME} outside single quotes by known values or marks.
std::string Expanded(const std::string& text, const Variables& variables) {
  std::string out;
  bool single = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'') single = !single;
    if (text[i] != '$' || single) {
      out += text[i];
      continue;
    }
    if (const auto all = variables.find(text.substr(i + 1, 1));
        all != variables.end() && IsOneOf(all->first, {"@", "*"})) {
      const bool is_quoted = out.ends_with('"') && text.substr(i + 2, 1) == "\"";
      if (is_quoted) out.pop_back();
      out += all->second;
      i += is_quoted ? 2 : 1;
      continue;
    }
    const bool braced = i + 1 < text.size() && text[i + 1] == '{';
    const size_t begin = i + (braced ? 2 : 1);
    size_t end = begin;
    while (end < text.size() && IsNameByte(text[end])) ++end;
    const bool closed = !braced || (end < text.size() && text[end] == '}');
    if (end == begin || !closed) {
      out += text[i];  // "$(…)", "${A:-b}": only a shell can expand these
      continue;
    }
    const std::string name = text.substr(begin, end - begin);
    const auto known = variables.find(name);
    out += known != variables.end() ? known->second
                                    : StrCat(kUnknownBegin, name, std::string(1, kUnknownEnd));
    i = braced ? end : end - 1;
  }
  return out;
}

// The first variable in `words` whose value is not known, or empty.
std::string UnknownIn(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const size_t at = word.find(kUnknownBegin);
    if (at == std::string::npos) continue;
    const size_t begin = at + sizeof(kUnknownBegin) - 1;
    return word.substr(begin, word.find(kUnknownEnd, begin) - begin);
  }
  return "";
}

// How many words in front of a command set variables for it: "NCCL_DEBUG=INFO torchrun train.py".
size_t Assignments(const std::vector<std::string>& words) {
  const auto is_other = [](const std::string& word) {
    const size_t equals = word.find('=');
    return equals == std::string::npos || equals == 0 ||
           std::isdigit(static_cast<unsigned char>(word[0])) != 0 ||
           !std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                        IsNameByte);
  };
  return static_cast<size_t>(std::find_if(words.begin(), words.end(), is_other) - words.begin());
}

// A launcher starts ranks. A plain program does, too, if there is no launcher; next to one it runs
// once.
enum class Starts { kNothing, kProgram, kLauncher };

Starts WhatStarts(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  const size_t at = Assignments(words);
  const std::string first = at < words.size() ? words[at] : "";
  const std::string program = ProgramName(first);
  const bool is_python = program.starts_with("python");
  if (IsOneOf(program, {"srun", "torchrun", "torch_npu_run", "accelerate", "accelerate-launch"}) ||
      (is_python && (absl::StrContains(text, " torch.distributed.") ||
                     absl::StrContains(text, " accelerate.commands."))))
    return Starts::kLauncher;
  return is_python || IsOneOf(program, {"exec", "nohup"}) || first.starts_with("./")
             ? Starts::kProgram
             : Starts::kNothing;
}

// "NAME=VALUE" of an assignment or an export; nothing if it is something else or needs a shell.
std::optional<std::pair<std::string, std::string>> Assignment(const std::string& text,
                                                              const Variables& variables) {
  absl::string_view rest = text;
  absl::ConsumePrefix(&rest, "export ");
  const std::vector<std::string> words = PlainShellWords(Expanded(std::string(rest), variables));
  if (words.size() != 1 || !UnknownIn(words).empty()) return std::nullopt;
  const size_t equals = words[0].find('=');
  if (equals == 0 || equals == std::string::npos) return std::nullopt;
  const std::string name = words[0].substr(0, equals);
  if (!std::all_of(name.begin(), name.end(), IsNameByte)) return std::nullopt;
  return std::pair(name, words[0].substr(equals + 1));
}

// A variable of Slurm's that the command, or a shell that it starts, would read; or empty.
std::string SlurmVariableIn(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    for (size_t at = word.find('$'); at != std::string::npos; at = word.find('$', at + 1)) {
      const size_t begin = at + (word.substr(at + 1, 1) == "{" ? 2 : 1);
      size_t end = begin;
      while (end < word.size() && IsNameByte(word[end])) ++end;
      const std::string name = word.substr(begin, end - begin);
      if (name.starts_with("SLURM_")) return name;
    }
  }
  return "";
}

void LeaveOut(const ScriptLine& line, JobDraft* draft) {
  const std::string text = StrCat("line ", line.number, ": ", line.text.substr(0, 200));
  if (draft->left_out.size() + draft->refused.size() > kLeftOutMax) return;
  if (draft->left_out.size() + draft->refused.size() == kLeftOutMax) {
    draft->left_out.push_back("… and more");
  } else if (DoesNothingThatLasts(line.text)) {
    draft->left_out.push_back(text);
  } else {
    draft->refused.push_back(
        {.name = "lines",
         .what = StrCat(text, ": it would not run"),
         .fix = "with --sync, --setup COMMAND runs once on each node before the ranks; or "
                "submit the script itself: jobctl submit -n N -- bash SCRIPT"});
  }
}

// The lines before the command.
struct Before {
  bool has_shell = false;        // that can run lines
  Variables variables;           // whose values are known
  std::set<std::string> unread;  // assigned by something that only a shell could run
  struct Line {
    std::string text;
    bool is_assignment;  // an assignment, which only matters if other lines need a shell
  };
  std::vector<Line> lines;  // for the shell
  bool uses_shell() const {
    return std::any_of(lines.begin(), lines.end(), [](const Line& l) { return !l.is_assignment; });
  }
};

bool TakeIntoShell(const ScriptLine& line, Before* before) {
  const std::string expanded = Expanded(line.text, before->variables);
  // An export may compute its value, so its line need not be plain words.
  const bool is_whole = line.text.starts_with("export ") || !PlainShellWords(expanded).empty();
  if (!before->has_shell || !SetsUpShell(line.text) || !is_whole) return false;
  if (!SlurmVariableIn({line.text}).empty()) return false;
  const auto is_read = [&line](const std::string& name) {
    return absl::StrContains(line.text, "$" + name) || absl::StrContains(line.text, "${" + name);
  };
  if (std::any_of(before->unread.begin(), before->unread.end(), is_read)) return false;
  // From here on only the shell knows it.
  if (const size_t equals = line.text.find('='); line.text.starts_with("export "))
    before->variables.erase(line.text.substr(7, std::max<size_t>(equals, 7) - 7));
  before->lines.push_back({line.text, false});
  return true;
}

// True for `export MASTER_ADDR=$(…)` and the like: variables that the coordinator sets for ranks.
bool IsDecidedHere(std::string_view text) {
  if (text.starts_with("export ")) text.remove_prefix(7);
  return IsRankVariable(text.substr(0, text.find('=')));
}

// Handles a line that does not start ranks: environment, directory, a line for the shell, or left
// out.
void TakeOther(const ScriptLine& line, Before* before, JobDraft* draft) {
  if (IsDecidedHere(line.text)) {
    draft->left_out.push_back(
        StrCat("line ", line.number, ": ", line.text.substr(0, 200), ": the coordinator decides"));
    return;
  }
  if (before->uses_shell() && TakeIntoShell(line, before)) return;
  if (const auto assigned = Assignment(line.text, before->variables); assigned.has_value()) {
    before->variables[assigned->first] = assigned->second;
    if (line.text.starts_with("export ")) draft->env[assigned->first] = assigned->second;
    before->lines.push_back({line.text, true});
    return;
  }
  const std::vector<std::string> words = PlainShellWords(Expanded(line.text, before->variables));
  if (words.size() == 2 && words[0] == "cd" && words[1].starts_with('/') &&
      UnknownIn(words).empty()) {
    draft->workdir = words[1];
    return;
  }
  // Ranks begin where the job was submitted.
  if (words.size() == 2 && words[0] == "cd" && WithoutMarks(words[1]) == "$SLURM_SUBMIT_DIR")
    return;
  if (TakeIntoShell(line, before)) return;
  if (const size_t equals = line.text.find('='); equals != std::string::npos)
    before->unread.insert(line.text.substr(0, equals));
  LeaveOut(line, draft);
}

absl::Status NeedsShell(const ScriptLine& line, const std::string& unknown) {
  if (!unknown.empty() && std::all_of(unknown.begin(), unknown.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; })) {
    return Usage("JC1010",
                 StrCat("line ", line.number, " reads argument $", unknown,
                        " of the script, which was not given or needs quotes"),
                 "jobctl submit SCRIPT ARGUMENT…, of letters, digits and ./:=,+@%-_");
  }
  return Usage("JC1010",
               StrCat("line ", line.number, " needs a shell",
                      unknown.empty() ? "" : StrCat(" to know $", unknown), ": ",
                      common::Printable(line.text.substr(0, 200))),
               "write its values into a plain line, or give the command itself: jobctl init -n N "
               "-- python train.py");
}

// Removes "srun" and its options.
absl::Status TakeSrun(const ScriptLine& line, std::vector<std::string>* words,
                      const TakeOption& take, JobDraft* draft) {
  size_t at = 1;
  for (; at < words->size() && (*words)[at].starts_with('-'); ++at) {
    const std::string& word = (*words)[at];
    const bool is_long = word.starts_with("--");
    const size_t equals = is_long ? word.find('=') : std::string::npos;
    const std::string name = is_long
                                 ? word.substr(2, equals == std::string::npos ? equals : equals - 2)
                                 : word.substr(1, 1);
    const bool has_value = equals != std::string::npos || (!is_long && word.size() > 2);
    const SrunOption kind = KindOfSrunOption(name);
    if (kind == SrunOption::kUnknown && !has_value) {
      return Usage("JC1010",
                   StrCat("line ", line.number, ": srun's option ", common::Printable(word),
                          " is not known here, nor whether a value follows it"),
                   "leave it out, or write its value with \"=\"");
    }
    std::string shown = word;
    std::string value = is_long ? (has_value ? word.substr(equals + 1) : "") : word.substr(2);
    if (kind == SrunOption::kTakesValue && !has_value && at + 1 < words->size()) {
      value = (*words)[++at];
      StrAppend(&shown, " ", value);
    }
    if (take == nullptr || value.empty() || !take(name, value))
      LeaveOutOption(name, StrCat("line ", line.number, ": srun ", WithoutMarks(shown)), draft);
  }
  words->erase(words->begin(), words->begin() + static_cast<std::ptrdiff_t>(at));
  return absl::OkStatus();
}

absl::Status TakeCommand(const ScriptLine& line, const Before& before,
                         const TakeOption& take_srun_option, const Environment& environment,
                         const CountDevices& on_a_node, JobDraft* draft) {
  std::vector<std::string> words = PlainShellWords(Expanded(line.text, before.variables));
  const size_t assigned = Assignments(words);
  if (const std::vector<std::string> own(words.begin(), words.begin() + assigned); assigned > 0) {
    if (const std::string unknown = UnknownIn(own); !unknown.empty())
      return NeedsShell(line, unknown);
    for (const std::string& each : own)
      draft->env[each.substr(0, each.find('='))] = each.substr(each.find('=') + 1);
    words.erase(words.begin(), words.begin() + assigned);
  }
  if (!words.empty() && words[0] == "srun")
    RETURN_IF_ERROR(TakeSrun(line, &words, take_srun_option, draft));
  if (!words.empty() && (words[0] == "exec" || words[0] == "nohup")) words.erase(words.begin());
  if (words.empty()) return NeedsShell(line, "");
  const absl::StatusOr<std::optional<LaunchPlan>> plan = ReadLauncherLine(words, environment);
  if (!plan.ok()) {
    const std::string unknown = UnknownIn(words);
    return unknown.empty() ? plan.status() : NeedsShell(line, unknown);
  }
  if (plan->has_value()) {
    TakePlan(**plan, on_a_node, draft);
  } else {
    draft->command = words;
  }
  // Unknown values do not matter in flags that the coordinator decides.
  if (const std::string unknown = UnknownIn(draft->command); !unknown.empty())
    return NeedsShell(line, unknown);
  if (const std::string name = SlurmVariableIn(draft->command); !name.empty()) {
    return Usage("JC1010", StrCat("line ", line.number, ": ranks have no $", name, " here"),
                 "torchrun's names: RANK, LOCAL_RANK, GROUP_RANK, WORLD_SIZE, MASTER_ADDR");
  }
  if (!UnknownIn({draft->run_id}).empty()) draft->run_id.clear();
  return absl::OkStatus();
}

// The lines that set up the shell, in front of the command.
void RunInShell(const Before& before, const std::vector<ScriptLine>& lines,
                const std::string& shell, JobDraft* draft) {
  if (!before.uses_shell()) return;
  std::vector<std::string> all, named;
  const bool stops = std::any_of(lines.begin(), lines.end(), [](const ScriptLine& line) {
    return line.text.starts_with("set -e");
  });
  if (stops) all.push_back("set -e");
  for (const Before::Line& line : before.lines) {
    all.push_back(line.text);
    if (!line.is_assignment) named.push_back(line.text);
  }
  draft->notes.push_back(
      StrCat("in each rank, before the command, a login shell (", shell,
             ") runs what Slurm runs once per job: ", absl::StrJoin(named, "; ")));
  draft->command = BehindLines(shell, all, draft->command);
}

// "srun" in "for i in 1 2; do srun …"; empty: there is none.
std::string LauncherWithin(const std::string& text) {
  for (const char* launcher : {"srun", "torchrun", "accelerate"}) {
    for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t;&|("))) {
      if (word == launcher) return launcher;
    }
  }
  return {};
}

// The one line that starts ranks.
absl::StatusOr<size_t> FindStart(const std::vector<ScriptLine>& lines) {
  std::vector<size_t> found;
  Starts what = Starts::kProgram;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Starts each = WhatStarts(lines[i].text);
    if (each == Starts::kLauncher && what == Starts::kProgram) {
      what = each;
      found.clear();
    }
    if (each == what) found.push_back(i);
  }
  if (found.empty()) {
    for (const ScriptLine& line : lines) {
      const std::string launcher = LauncherWithin(line.text);
      if (launcher.empty()) continue;
      return Usage(
          "JC1010",
          StrCat("line ", line.number, " starts ", launcher,
                 " within a loop, a condition or another command, and a job is one command"),
          "submit each command as a job; or the script itself: jobctl submit -n N -- bash "
          "SCRIPT");
    }
    return Usage("JC1010", "no line starts with srun, torchrun, accelerate, python or ./PROGRAM",
                 "give the command itself: jobctl init -n N -- python train.py");
  }
  if (found.size() > 1) {
    return Usage("JC1010",
                 StrCat("lines ", lines[found[0]].number, " and ", lines[found[1]].number,
                        " both start something, and a job has one command"),
                 "keep one of them, or submit the script itself: jobctl submit -n N -- sh SCRIPT");
  }
  if (lines[found[0]].is_in_block) return NeedsShell(lines[found[0]], "");
  return found[0];
}

}  // namespace

absl::Status TakeScript(std::string_view content, Variables variables,
                        const TakeOption& take_srun_option, const Environment& environment,
                        const CountDevices& on_a_node, JobDraft* draft) {
  const std::vector<ScriptLine> lines = LogicalLines(content);
  ASSIGN_OR_RETURN(const size_t start, FindStart(lines));
  const std::string shell = ShellOf(content);
  Before before{.has_shell = !shell.empty(), .variables = std::move(variables)};
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i == start) {
      RETURN_IF_ERROR(
          TakeCommand(lines[i], before, take_srun_option, environment, on_a_node, draft));
    } else if (i > start || lines[i].is_in_block) {
      LeaveOut(lines[i], draft);
    } else {
      TakeOther(lines[i], &before, draft);
    }
  }
  RunInShell(before, lines, shell, draft);
  return absl::OkStatus();
}

}  // namespace muster::client
