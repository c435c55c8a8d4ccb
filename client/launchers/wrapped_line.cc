// Launchers behind other commands: `env A=1 torchrun …`, `nohup torchrun …`, `sh -c "torchrun …"`.
#include <algorithm>
#include <cctype>

#include "client/launchers/launchers.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

constexpr int kLayersMax = 8;

bool IsShell(std::string_view program) {
  constexpr std::string_view kShells[] = {"sh", "bash", "dash", "zsh", "ksh"};
  return std::find(std::begin(kShells), std::end(kShells), ProgramName(program)) !=
         std::end(kShells);
}

// Commands that run the command that follows them.
bool IsPrefix(std::string_view program) {
  constexpr std::string_view kPrefixes[] = {
      "env",  "nohup", "nice", "ionice", "chrt",    "taskset", "numactl",    "stdbuf", "setsid",
      "time", "sudo",  "uv",   "poetry", "pdm",     "pipenv",  "hatch",      "conda",  "mamba",
      "exec", "nsys",  "ncu",  "perf",   "rocprof", "timeout", "micromamba", "strace", "xvfb-run"};
  return std::find(std::begin(kPrefixes), std::end(kPrefixes), ProgramName(program)) !=
         std::end(kPrefixes);
}

// The name of a "NAME=VALUE", or empty.
std::string AssignedName(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return "";
  const bool good = std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                                [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return good && !std::isdigit(static_cast<unsigned char>(word[0])) ? word.substr(0, equals) : "";
}

// Removes leading assignments from `words`.
void TakeAssignments(std::vector<std::string>* words, std::map<std::string, std::string>* env) {
  size_t count = 0;
  for (; count < words->size(); ++count) {
    const std::string& word = (*words)[count];
    const std::string name = AssignedName(word);
    if (name.empty()) break;
    (*env)[name] = word.substr(name.size() + 1);
  }
  words->erase(words->begin(), words->begin() + static_cast<std::ptrdiff_t>(count));
}

// Removes one wrapper from `line`; false if none can be removed without changing what runs.
bool TakeLayer(WrappedLine* line) {
  std::vector<std::string>& words = line->words;
  if (words.size() < 2) return false;
  const std::string name = ProgramName(words[0]);
  if (name == "env" || name == "nohup") {
    if (words[1].starts_with('-')) return false;
    words.erase(words.begin());
    if (name == "env") TakeAssignments(&words, &line->env);
    line->has_nohup = line->has_nohup || name == "nohup";
    return true;
  }
  if (!IsShell(words[0]) || words.size() != 3 || words[1] != "-c") return false;
  std::vector<std::string> inner = PlainShellWords(words[2]);
  TakeAssignments(&inner, &line->env);
  if (!inner.empty() && inner[0] == "exec") inner.erase(inner.begin());
  // A single word may be a shell function.
  if (inner.size() < 2) return false;
  words = std::move(inner);
  return true;
}

// The launcher that starts at `words[at]`, by its usual name, or empty.
std::string LauncherAt(const std::vector<std::string>& words, size_t at) {
  constexpr std::string_view kPrograms[] = {"torchrun", "torch_npu_run", "accelerate-launch",
                                            "mpirun",   "mpiexec",       "deepspeed",
                                            "srun",     "horovodrun"};
  constexpr std::string_view kModules[] = {"torch.distributed.run", "torch.distributed.launch",
                                           "torch_npu.distributed.run",
                                           "accelerate.commands.launch"};
  const std::string name = ProgramName(words[at]);
  if (std::find(std::begin(kPrograms), std::end(kPrograms), name) != std::end(kPrograms))
    return name;
  const std::string next = at + 1 < words.size() ? words[at + 1] : "";
  if (name == "accelerate" && next == "launch") return "accelerate launch";
  const bool module = words[at] == "-m" && std::find(std::begin(kModules), std::end(kModules),
                                                     next) != std::end(kModules);
  return module ? next : "";
}

// The first launcher among `words` that is not the value of a `--flag`.
std::string FirstLauncher(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view before = i > 0 ? std::string_view(words[i - 1]) : std::string_view();
    if (before.size() > 2 && before.starts_with("--") && before.find('=') == before.npos) continue;
    if (std::string found = LauncherAt(words, i); !found.empty()) return found;
  }
  return "";
}

}  // namespace

std::vector<std::string> PlainShellWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (const char c : text) {
    const bool expands = quote == '\'' ? false : std::string_view("$`\\").find(c) != text.npos;
    const bool special =
        quote == 0 && std::string_view("\n;&|<>()*?[]{}~#!").find(c) != std::string_view::npos;
    if (expands || special) return {};
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) words.push_back(std::move(word));
  return quote == 0 ? words : std::vector<std::string>();
}

WrappedLine Unwrap(const std::vector<std::string>& argv) {
  WrappedLine line{.words = argv, .env = {}, .has_nohup = false};
  for (int layer = 0; layer < kLayersMax && TakeLayer(&line); ++layer) {
  }
  return line;
}

std::string InnerLauncher(const std::vector<std::string>& argv) {
  if (argv.empty()) return "";
  if (std::string own = LauncherAt(argv, 0); !own.empty()) return own;
  if (IsShell(argv[0])) {
    for (size_t i = 1; i < argv.size(); ++i) {
      std::string text = argv[i];
      std::replace_if(
          text.begin(), text.end(),
          [](char c) { return std::string_view("\n\t;&|()\"'").find(c) != std::string_view::npos; },
          ' ');
      std::vector<std::string> words;
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(' ', at), text.size());
        if (end > at) words.push_back(text.substr(at, end - at));
        at = end + 1;
      }
      if (std::string found = FirstLauncher(words); !found.empty()) return found;
    }
    return "";
  }
  // In "python train.py torchrun" it is an argument of the trainer.
  return IsPrefix(argv[0]) || AssignedName(argv[0]) != "" ? FirstLauncher(argv) : "";
}

}  // namespace muster::client
