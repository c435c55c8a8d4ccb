#include "client/help/help.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/job_file/job_file.h"
#include "client/terminal/terminal.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

struct Pair {
  std::string left;
  std::string right;
};

// Two columns; the right one is wrapped at 80.
std::string TwoColumns(const std::vector<Pair>& pairs) {
  size_t width = 0;
  for (const Pair& pair : pairs)
    width = std::max(width, std::min<size_t>(DisplayWidth(pair.left), 30));
  std::string out;
  const size_t indent = width + 4;
  for (const Pair& pair : pairs) {
    const size_t left = DisplayWidth(pair.left);
    StrAppend(&out, "  ", pair.left);
    if (left > width) {
      StrAppend(&out, "\n", std::string(indent, ' '));
    } else {
      out += std::string(width - left + 2, ' ');
    }
    std::string_view text = pair.right;
    const size_t room = 80 - indent;
    while (DisplayWidth(text) > room) {
      const size_t blank = text.rfind(' ', room);
      if (blank == std::string_view::npos || blank == 0) break;
      StrAppend(&out, text.substr(0, blank), "\n", std::string(indent, ' '));
      text.remove_prefix(blank + 1);
    }
    StrAppend(&out, text, "\n");
  }
  return out;
}

std::vector<Pair> ExamplePairs(std::string_view examples) {
  std::vector<Pair> pairs;
  for (const absl::string_view line :
       absl::StrSplit(common::ToAbsl(examples), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> both = absl::StrSplit(line, absl::MaxSplits('\t', 1));
    pairs.push_back({both.first, both.second});
  }
  return pairs;
}

std::string Examples(std::string_view examples) {
  std::string out;
  for (const Pair& pair : ExamplePairs(examples)) {
    const std::string line = StrCat("  ", pair.left);
    StrAppend(&out, line, DisplayWidth(line) + pair.right.size() + 4 > 80 ? "\n      " : "  ", "# ",
              pair.right, "\n");
  }
  return out;
}

std::vector<Pair> FlagPairs(std::span<const Flag> flags) {
  std::vector<Pair> pairs;
  for (const Flag& flag : flags) {
    std::string left = flag.letter != 0
                           ? StrCat("-", std::string(1, flag.letter), ", --", flag.name)
                           : StrCat("    --", flag.name);
    if (flag.NeedsValue()) {
      StrAppend(&left, " ", flag.value);
    } else if (flag.TakesValue()) {
      StrAppend(&left, "[", flag.value, "]");
    }
    pairs.push_back({left, std::string(flag.help)});
  }
  return pairs;
}

std::string UsageLine(const Command& command) {
  return StrCat("jobctl ", command.name,
                command.flags.empty() && !command.listing ? "" : " [FLAGS]",
                command.arguments.empty() ? "" : " ", command.arguments);
}

bool Hidden(const Command& command) { return command.name.starts_with("__"); }

}  // namespace

std::string OverviewHelp() {
  std::vector<Pair> commands;
  std::string group;
  for (const Command* command : Commands()) {
    if (Hidden(*command)) continue;
    const size_t blank = command->name.find(' ');
    if (blank == std::string_view::npos) {
      commands.push_back({std::string(command->name), std::string(command->summary)});
      continue;
    }
    const std::string word(command->name.substr(0, blank));
    if (word == group) {
      StrAppend(&commands.back().right, ", ", command->name.substr(blank + 1));
    } else {
      group = word;
      commands.push_back({word, std::string(command->name.substr(blank + 1))});
    }
  }
  return StrCat(
      "jobctl: run training jobs on this machine or a cluster, and monitor them\n\n",
      Examples("jobctl run -n 2 -- python train.py\ttwo ranks on this machine, no setup\n"
               "jobctl run -- torchrun --nproc-per-node 2 train.py\tyour existing command line\n"
               "jobctl submit train.yaml\tqueue a job file\n"
               "jobctl logs -f @last\tthe output of your newest job"),
      "\nCommands:\n", TwoColumns(commands), "\nFlags of all commands:\n",
      TwoColumns(FlagPairs(GlobalFlags())),
      "\nFor details: jobctl help COMMAND, jobctl help exit-codes, jobctl explain CODE.\n");
}

std::string CommandHelp(const Command& command) {
  std::string out = StrCat("jobctl ", command.name, ": ", command.summary, "\n\n");
  if (!command.examples.empty()) StrAppend(&out, Examples(command.examples), "\n");
  StrAppend(&out, "Usage: ", UsageLine(command), "\n");
  if (!command.flags.empty()) StrAppend(&out, "\nFlags:\n", TwoColumns(FlagPairs(command.flags)));
  if (command.listing)
    StrAppend(&out, "\nFlags of listings:\n", TwoColumns(FlagPairs(ListingFlags())));
  if (!command.notes.empty()) StrAppend(&out, "\n", command.notes, "\n");
  return out;
}

std::string GroupHelp(std::string_view group) {
  std::vector<Pair> pairs;
  for (const Command* command : Commands()) {
    if (command->name.starts_with(StrCat(group, " "))) {
      pairs.push_back({StrCat("jobctl ", command->name, command->arguments.empty() ? "" : " ",
                              command->arguments),
                       std::string(command->summary)});
    }
  }
  return StrCat("jobctl ", group, ":\n\n", TwoColumns(pairs));
}

std::string ExitCodeHelp() {
  return "Exit codes of jobctl:\n\n" +
         TwoColumns({{"0", "done"},
                     {"1", "failed"},
                     {"2", "bad command line or configuration"},
                     {"3", "no such job, node, checkpoint or context"},
                     {"4", "not allowed"},
                     {"5", "the coordinator does not answer"},
                     {"6", "refused: a bad job, an impossible shape, a full queue, a used key"},
                     {"10", "plan: the job would wait (0: it would start now)"},
                     {"11", "plan: the registered nodes could never hold it"},
                     {"100", "wait, logs -f, submit --wait: the job failed"},
                     {"101", "wait: timed out"},
                     {"103", "wait, logs -f, submit --wait, run: the job was cancelled"},
                     {"104", "wait, submit --wait, run: the job is held until jobctl release"},
                     {"130",
                      "Ctrl-C: detached (the job keeps running); in `run`: the job "
                      "was stopped"}}) +
         "\n`jobctl run`, and --propagate, return the first failing rank's code, or 128 +\nits "
         "signal "
         "(127: the command does not exist, 126: it is not executable,\n"
         "124: its time limit was over).\n";
}

std::string JobFileHelp() {
  const auto plain = [](std::string text) {
    std::erase(text, '`');
    return text;
  };
  std::vector<Pair> keys;
  for (const JobKey& key : JobKeys()) {
    const std::string values =
        key.type == KeyType::kSection ? "" : StrCat(" (", JobKeyValues(key), ")");
    keys.push_back({std::string(key.path), plain(StrCat(JobKeyMeaning(key), values))});
  }
  return StrCat("Keys of a job file (docs/jobfile.md; `jobctl validate FILE` checks one):\n\n",
                TwoColumns(keys));
}

std::string HelpDocument() {
  std::string out =
      "# jobctl\n\nGenerated from the command table (`jobctl help --markdown`); a test compares "
      "the "
      "two.\n\n```\n" +
      OverviewHelp() + "```\n";
  for (const Command* command : Commands()) {
    if (Hidden(*command)) continue;
    StrAppend(&out, "\n## jobctl ", command->name, "\n\n```\n", CommandHelp(*command), "```\n");
  }
  return StrCat(out, "\n## Exit codes\n\n```\n", ExitCodeHelp(), "```\n");
}

std::string CompletionScript(std::string_view shell) {
  if (shell == "bash") {
    return R"(# jobctl completion for bash: source <(jobctl completion bash)
_jobctl() {
  local IFS=$'\n'
  COMPREPLY=($(jobctl __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [ "${#COMPREPLY[@]}" -eq 1 ] && [ "${COMPREPLY[0]}" = ":files" ]; then
    COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
  fi
}
complete -o filenames -F _jobctl jobctl
)";
  }
  if (shell == "zsh") {
    return R"(#compdef jobctl
# jobctl completion for zsh: source <(jobctl completion zsh)
_jobctl() {
  local -a answers
  answers=("${(@f)$(jobctl __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ "${answers[1]}" == ":files" ]]; then
    _files
  else
    compadd -- $answers
  fi
}
compdef _jobctl jobctl
)";
  }
  return R"(# jobctl completion for fish: jobctl completion fish | source
function __jobctl_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l answers (jobctl __complete -- $words[2..-1] 2>/dev/null)
  if test "$answers" = ":files"
    __fish_complete_path (commandline -ct)
  else
    printf '%s\n' $answers
  end
end
complete -c jobctl -f -a '(__jobctl_complete)'
)";
}

}  // namespace muster::client
