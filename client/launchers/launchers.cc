#include "client/launchers/launchers.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/command_line/errors.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

bool IsPython(std::string_view word) {
  const std::string name = ProgramName(word);
  return name == "python" || (name.starts_with("python3") || name == "python2") ||
         name.starts_with("pypy");
}

std::string FindInPath(const std::string& program, const Environment& environment) {
  if (program.find('/') != std::string::npos) return program;
  for (const auto directory : absl::StrSplit(environment("PATH"), ':', absl::SkipEmpty())) {
    const std::string candidate = absl::StrCat(directory, "/", program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

// The position of the module in `python [options] -m MODULE …`, or 0. Options with a separate
// value: -X, -W, --check….
size_t ModuleIndex(const std::vector<std::string>& argv) {
  for (size_t i = 1; i + 1 < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word == "-m") return i + 1;
    if (word == "-X" || word == "-W" || word == "--check-hash-based-pycs") {
      ++i;
    } else if (word.empty() || word[0] != '-' || word == "-" || word == "-c") {
      return 0;
    }
  }
  return 0;
}

const LaunchFlag* FindFlag(std::span<const LaunchFlag> table, std::string_view name, char letter) {
  for (const LaunchFlag& flag : table) {
    if ((letter != 0 && flag.letter == letter) || (letter == 0 && flag.name == name)) return &flag;
  }
  return nullptr;
}

absl::Status Refused(std::string_view launcher, const LaunchFlag& flag) {
  return Usage("JC1011", StrCat("--", flag.name, " of ", launcher, " is not supported"),
               flag.fix.empty() ? StrCat("remove --", flag.name) : std::string(flag.fix));
}

absl::StatusOr<std::optional<LaunchPlan>> ReadPlainLine(const std::vector<std::string>& argv,
                                                        const Environment& environment);

}  // namespace

bool IsRankVariable(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK",
      "LOCAL_RANK",  "NODE_RANK",   "GROUP_RANK", "LOCAL_WORLD_SIZE"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string ProgramName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

absl::StatusOr<std::optional<LaunchPlan>> ReadLauncherLine(const std::vector<std::string>& argv,
                                                           const Environment& environment) {
  const WrappedLine line = Unwrap(argv);
  const Environment with_assigned = [&](std::string_view name) {
    const auto found = line.env.find(std::string(name));
    return found == line.env.end() ? environment(name) : found->second;
  };
  ASSIGN_OR_RETURN(std::optional<LaunchPlan> plan, ReadPlainLine(line.words, with_assigned));
  if (!plan.has_value()) return plan;
  // Variables that the launcher sets take precedence, as when the launcher itself runs.
  plan->env.insert(line.env.begin(), line.env.end());
  if (line.has_nohup) {
    plan->notices.push_back(
        "nohup has no effect on ranks: `jobctl run --detach` keeps running without "
        "this terminal");
  }
  return plan;
}

std::string LaunchFlags::Get(std::string_view name, std::string_view otherwise) const {
  const auto found = values.find(name);
  return found == values.end() ? std::string(otherwise) : found->second;
}

absl::StatusOr<LaunchFlags> ParseLaunchFlags(std::string_view launcher,
                                             std::span<const std::string> words,
                                             std::span<const LaunchFlag> table,
                                             std::span<const std::string_view> prefixes,
                                             LaunchPlan* plan) {
  LaunchFlags flags;
  size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    const bool is_long = word[1] == '-';
    const size_t equals = is_long ? word.find('=') : std::string::npos;
    std::string name =
        is_long ? word.substr(2, equals == std::string::npos ? equals : equals - 2) : "";
    std::replace(name.begin(), name.end(), '_', '-');
    const LaunchFlag* flag = FindFlag(table, name, is_long ? 0 : word[1]);
    LaunchFlag by_prefix;
    if (flag == nullptr && is_long &&
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&](auto prefix) { return name.starts_with(prefix); })) {
      by_prefix = {name, 0, true, FlagFate::kHonored, {}};
      flag = &by_prefix;
    }
    if (flag == nullptr) {
      std::vector<std::string_view> names;
      for (const LaunchFlag& each : table) names.push_back(each.name);
      const std::string_view nearest = is_long ? common::Nearest(name, names) : std::string_view();
      return Usage("JC1010",
                   StrCat(launcher, " has no flag ", word.substr(0, equals),
                          nearest.empty() ? "" : common::DidYouMean(StrCat("--", nearest))),
                   StrCat("correct the ", launcher,
                          " line, or run the script itself: jobctl run -n N -- python "
                          "SCRIPT"));
    }
    if (flag->fate == FlagFate::kRefused) return Refused(launcher, *flag);
    std::string value = "1";
    if (flag->takes_value) {
      if (equals != std::string::npos) {
        value = word.substr(equals + 1);
      } else if (!is_long && word.size() > 2) {
        value = word.substr(2);
      } else if (at + 1 < words.size()) {
        value = words[++at];
      } else {
        return Usage("JC1010", StrCat(word, " of ", launcher, " needs a value"),
                     StrCat("correct the ", launcher, " line"));
      }
    }
    if (flag->fate == FlagFate::kOverridden) plan->overridden.push_back(StrCat("--", flag->name));
    if (flag->fate == FlagFate::kDisplay) {
      plan->notices.push_back(StrCat("--", flag->name,
                                     " is not needed: every rank's output is recorded and shown; "
                                     "`jobctl logs --rank N` selects"));
    }
    flags.values[std::string(flag->name)] = value;
  }
  flags.script.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return flags;
}

absl::StatusOr<uint32_t> LaunchNumber(std::string_view launcher, const LaunchFlags& flags,
                                      std::string_view name, uint32_t least, uint32_t otherwise) {
  if (!flags.Has(name)) return otherwise;
  const absl::StatusOr<int64_t> number = common::ParseInteger(flags.Get(name));
  if (!number.ok() || *number < least || *number > 1'000'000) {
    return Usage("JC1010",
                 StrCat("--", name, " of ", launcher, " takes a whole number from ", least,
                        ", not \"", flags.Get(name), "\""),
                 StrCat("correct the ", launcher, " line"));
  }
  return static_cast<uint32_t>(*number);
}

std::string PythonOf(const std::string& program, const Environment& environment) {
  if (const std::string chosen = environment("PYTHON_EXEC"); !chosen.empty()) return chosen;
  const std::string path = FindInPath(program, environment);
  if (path.empty()) return "python3";
  std::ifstream file(path, std::ios::binary);
  std::string first(512, '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<size_t>(file.gcount()));
  const std::string line = first.substr(0, first.find('\n'));
  if (line.starts_with("#!")) {
    const std::vector<std::string> words = absl::StrSplit(line.substr(2), ' ', absl::SkipEmpty());
    if (words.size() == 1 && IsPython(words[0])) return words[0];
    if (words.size() == 2 && ProgramName(words[0]) == "env" && IsPython(words[1])) return words[1];
    // pip's form for long paths: #!/bin/sh, then '''exec' "/long/path/python" "$0" "$@"
    if (const size_t begin = first.find("'''exec' "); begin != std::string::npos) {
      std::string rest = first.substr(begin + 9);
      const bool quoted = rest.starts_with('"');
      if (quoted) rest.erase(0, 1);
      const std::string python = rest.substr(0, rest.find(quoted ? '"' : ' '));
      if (IsPython(python)) return python;
    }
  }
  const std::string beside = path.substr(0, path.rfind('/')) + "/python3";
  return access(beside.c_str(), X_OK) == 0 ? beside : "python3";
}

namespace {

// A command line that starts with the launcher.
absl::StatusOr<std::optional<LaunchPlan>> ReadPlainLine(const std::vector<std::string>& argv,
                                                        const Environment& environment) {
  if (argv.empty()) return std::nullopt;
  const std::string name = ProgramName(argv[0]);
  const auto from = [&](size_t index) { return std::span<const std::string>(argv).subspan(index); };
  const auto python_of_launcher = [&] {
    return std::vector<std::string>{PythonOf(argv[0], environment)};
  };
  const auto wrap =
      [](absl::StatusOr<LaunchPlan> plan) -> absl::StatusOr<std::optional<LaunchPlan>> {
    if (!plan.ok()) return plan.status();
    return std::optional<LaunchPlan>(*std::move(plan));
  };
  if (name == "torchrun" || name == "torch_npu_run") {
    return wrap(ReadTorchrun(name, from(1), python_of_launcher(), environment));
  }
  if (name == "accelerate-launch")
    return wrap(ReadAccelerate(from(1), python_of_launcher(), environment));
  if (name == "accelerate" && argv.size() > 1 && argv[1] == "launch") {
    return wrap(ReadAccelerate(from(2), python_of_launcher(), environment));
  }
  if (!IsPython(argv[0])) return std::nullopt;
  const size_t module = ModuleIndex(argv);
  if (module == 0) return std::nullopt;
  // The interpreter and its options are kept unchanged.
  const std::vector<std::string> python(argv.begin(),
                                        argv.begin() + static_cast<std::ptrdiff_t>(module) - 1);
  const std::string& which = argv[module];
  if (which == "torch.distributed.run" || which == "torch.distributed.launch" ||
      which == "torch_npu.distributed.run" || which == "torch.distributed.launcher") {
    return wrap(ReadTorchrun(which, from(module + 1), python, environment));
  }
  if (which == "accelerate.commands.launch")
    return wrap(ReadAccelerate(from(module + 1), python, environment));
  if ((which == "accelerate.commands.accelerate_cli" || which == "accelerate") &&
      module + 1 < argv.size() && argv[module + 1] == "launch") {
    return wrap(ReadAccelerate(from(module + 2), python, environment));
  }
  return std::nullopt;
}

}  // namespace

std::string DescribePlan(const LaunchPlan& plan) {
  std::string line;
  if (!plan.overridden.empty()) {
    line = StrCat(plan.launcher, ": the coordinator decides instead of ",
                  absl::StrJoin(plan.overridden, ", "));
  }
  for (const std::string& notice : plan.notices) {
    common::StrAppend(&line, line.empty() ? StrCat(plan.launcher, ": ") : "; ", notice);
  }
  return line;
}

}  // namespace muster::client
