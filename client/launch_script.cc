#include "client/launch_script.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/errors.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;
using Variables = std::map<std::string, std::string>;

constexpr size_t kLeftOutMax = 50;
// Stands for a variable whose value is not known, until it is clear whether that matters.
constexpr char kUnknownBegin[] = "@unknown-";
constexpr char kUnknownEnd = '@';

struct ScriptLine {
  int number = 0;  // of its first line in the file
  std::string text;
};

// Without comments and blank lines; lines that end with a backslash are joined.
std::vector<ScriptLine> LogicalLines(std::string_view content) {
  std::vector<ScriptLine> lines;
  int number = 0;
  bool continued = false;
  for (absl::string_view raw : absl::StrSplit(common::ToAbsl(content), '\n')) {
    ++number;
    absl::string_view text = absl::StripAsciiWhitespace(raw);
    if (!continued && (text.empty() || text[0] == '#')) continue;
    if (!continued) lines.push_back({number, ""});
    continued = absl::ConsumeSuffix(&text, "\\");
    StrAppend(&lines.back().text, lines.back().text.empty() ? "" : " ", std::string(text));
  }
  return lines;
}

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// $NAME and ${NAME} outside single quotes, with known values or marks in their place.
std::string Expanded(const std::string& text, const Variables& variables) {
  std::string out;
  bool single = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'') single = !single;
    if (text[i] != '$' || single) {
      out += text[i];
      continue;
    }
    const bool braced = i + 1 < text.size() && text[i + 1] == '{';
    const size_t begin = i + (braced ? 2 : 1);
    size_t end = begin;
    while (end < text.size() && IsNameByte(text[end])) ++end;
    const bool closed = !braced || (end < text.size() && text[end] == '}');
    if (end == begin || !closed) {
      out += text[i];  // "$(…)", "${A:-b}": a shell's work
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

bool StartsRanks(const std::string& text) {
  const std::string first = text.substr(0, text.find(' '));
  const std::string program = ProgramName(first);
  constexpr std::string_view kStarters[] = {
      "srun", "torchrun", "torch_npu_run", "accelerate", "accelerate-launch", "exec", "nohup"};
  return std::find(std::begin(kStarters), std::end(kStarters), program) != std::end(kStarters) ||
         program.starts_with("python") || first.starts_with("./");
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

void LeaveOut(const ScriptLine& line, JobDraft* draft) {
  if (draft->left_out.size() == kLeftOutMax) draft->left_out.push_back("… and more");
  if (draft->left_out.size() > kLeftOutMax) return;
  draft->left_out.push_back(StrCat("line ", line.number, ": ", line.text.substr(0, 200)));
}

// What does not start ranks: environment, directory, or left out.
void TakeOther(const ScriptLine& line, Variables* variables, JobDraft* draft) {
  if (const auto assigned = Assignment(line.text, *variables); assigned.has_value()) {
    (*variables)[assigned->first] = assigned->second;
    if (line.text.starts_with("export ")) draft->env[assigned->first] = assigned->second;
    return;
  }
  const std::vector<std::string> words = PlainShellWords(Expanded(line.text, *variables));
  if (words.size() == 2 && words[0] == "cd" && words[1].starts_with('/') &&
      UnknownIn(words).empty()) {
    draft->workdir = words[1];
    return;
  }
  LeaveOut(line, draft);
}

// Removes "srun" and its options.
void TakeSrun(std::vector<std::string>* words, const TakeOption& take, JobDraft* draft) {
  size_t at = 1;
  for (; at < words->size() && (*words)[at].starts_with('-'); ++at) {
    const std::string& word = (*words)[at];
    const bool is_long = word.starts_with("--");
    const size_t equals = is_long ? word.find('=') : std::string::npos;
    std::string name = is_long ? word.substr(2, equals == std::string::npos ? equals : equals - 2)
                               : word.substr(1, 1);
    std::string value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    if (!is_long) value = word.substr(std::min<size_t>(2, word.size()));
    if (take == nullptr || !take(name, value)) {
      draft->left_out.push_back(StrCat("srun ", word));
    } else if (value.empty() && at + 1 < words->size() && take(name, (*words)[at + 1])) {
      ++at;
    }
  }
  words->erase(words->begin(), words->begin() + static_cast<std::ptrdiff_t>(at));
}

absl::Status NeedsShell(const ScriptLine& line, const std::string& unknown) {
  return Usage("JC1010",
               StrCat("line ", line.number, " needs a shell",
                      unknown.empty() ? "" : StrCat(" to know $", unknown), ": ",
                      common::Printable(line.text.substr(0, 200))),
               "write its values into a plain line, or give the command itself: jobctl init -n N "
               "-- python train.py");
}

absl::Status TakeCommand(const ScriptLine& line, const Variables& variables,
                         const TakeOption& take_srun_option, const Environment& environment,
                         const CountDevices& on_a_node, JobDraft* draft) {
  std::vector<std::string> words = PlainShellWords(Expanded(line.text, variables));
  if (!words.empty() && words[0] == "srun") TakeSrun(&words, take_srun_option, draft);
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
  // Unknown values among the flags that the coordinator decides do not matter.
  if (const std::string unknown = UnknownIn(draft->command); !unknown.empty())
    return NeedsShell(line, unknown);
  if (!UnknownIn({draft->run_id}).empty()) draft->run_id.clear();
  return absl::OkStatus();
}

}  // namespace

absl::Status TakeScript(std::string_view content, Variables variables,
                        const TakeOption& take_srun_option, const Environment& environment,
                        const CountDevices& on_a_node, JobDraft* draft) {
  bool found = false;
  for (const ScriptLine& line : LogicalLines(content)) {
    if (found) {
      LeaveOut(line, draft);
    } else if (StartsRanks(line.text)) {
      RETURN_IF_ERROR(
          TakeCommand(line, variables, take_srun_option, environment, on_a_node, draft));
      found = true;
    } else {
      TakeOther(line, &variables, draft);
    }
  }
  if (found) return absl::OkStatus();
  return Usage("JC1010", "no line starts with srun, torchrun, accelerate, python or ./PROGRAM",
               "give the command itself: jobctl init -n N -- python train.py");
}

}  // namespace muster::client
