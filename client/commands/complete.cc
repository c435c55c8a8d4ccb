// jobctl __complete -- WORDS…: what the shell's completion asks. Answers are lines; ":files" means
// file names.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/session.h"
#include "common/error_codes.h"
#include "common/status.h"
#include "common/strings.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

// People wait at the prompt: an answer that takes longer is worth nothing.
constexpr unsigned kLimitSeconds = 2;

std::vector<std::string> Subjects(Session& session, std::string_view what) {
  std::vector<std::string> names;
  if (what == "context") {
    names.push_back("private");
    for (const auto& [name, unused] : session.settings().file().contexts) names.push_back(name);
  } else if (what == "command") {
    for (const Command* command : Commands())
      names.emplace_back(command->name.substr(0, command->name.find(' ')));
    names.push_back("exit-codes");
  } else if (what == "code") {
    for (const common::ErrorCode& code : common::ErrorCodes()) names.emplace_back(code.code);
  } else if (what == "job" || what == "node") {
    const absl::StatusOr<Connection*> connection = session.ConnectIfAny();
    if (!connection.ok() || *connection == nullptr) return names;
    if (what == "job") {
      v1::ListJobsRequest request;
      request.set_limit(200);
      const auto jobs = (*connection)->ListJobs(request);
      names.push_back("@last");
      if (jobs.ok()) {
        for (const v1::JobSummary& job : jobs->jobs()) names.push_back(job.name());
      }
    } else {
      const auto nodes = (*connection)->ListNodes();
      if (nodes.ok()) {
        for (const v1::NodeView& node : nodes->nodes())
          names.push_back(node.record().facts().name());
      }
    }
  }
  return names;
}

std::vector<std::string> FlagNames(const Command* command) {
  std::vector<std::string> names = {"--help"};
  const auto add = [&](std::span<const Flag> flags) {
    for (const Flag& flag : flags) names.push_back(common::StrCat("--", flag.name));
  };
  if (command != nullptr) add(command->flags);
  if (command != nullptr && command->listing) add(ListingFlags());
  add(GlobalFlags());
  return names;
}

std::vector<std::string> CommandWords(std::string_view group) {
  std::vector<std::string> names;
  for (const Command* command : Commands()) {
    if (command->name.starts_with("__")) continue;
    const size_t blank = command->name.find(' ');
    if (group.empty()) {
      names.emplace_back(command->name.substr(0, blank));
    } else if (blank != std::string_view::npos && command->name.substr(0, blank) == group) {
      names.emplace_back(command->name.substr(blank + 1));
    }
  }
  return names;
}

// The candidates for the last of `words`, before they are narrowed to what was typed.
std::vector<std::string> Candidates(Session& session, const std::vector<std::string>& words) {
  const Command* command = nullptr;
  std::string group;
  const Flag* open_flag = nullptr;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    open_flag = nullptr;
    if (words[i] == "--") return {":files"};
    if (words[i].starts_with("--") && words[i].find('=') == std::string::npos) {
      for (const std::span<const Flag> flags :
           {command == nullptr ? std::span<const Flag>() : command->flags, ListingFlags(),
            GlobalFlags()}) {
        for (const Flag& flag : flags) {
          if (open_flag == nullptr && words[i].substr(2) == flag.name && !flag.value.empty())
            open_flag = &flag;
        }
      }
      if (open_flag != nullptr && i + 2 < words.size()) ++i;
    } else if (command == nullptr && !words[i].starts_with("-")) {
      if (group.empty() && IsCommandGroup(words[i])) {
        group = words[i];
      } else {
        command = FindCommand(group.empty() ? words[i] : common::StrCat(group, " ", words[i]));
      }
    }
  }
  if (open_flag != nullptr && words[words.size() - 2].starts_with("--")) {
    if (open_flag->choices.empty()) return {":files"};
    std::vector<std::string> choices;
    std::string_view left = open_flag->choices;
    while (!left.empty()) {
      const size_t bar = std::min(left.find('|'), left.size());
      choices.emplace_back(left.substr(0, bar));
      left.remove_prefix(std::min(bar + 1, left.size()));
    }
    return choices;
  }
  if (words.back().starts_with("-")) return FlagNames(command);
  if (command == nullptr) return CommandWords(group);
  if (command->completes == "file") return {":files"};
  if (command->name == "completion") return {"bash", "zsh", "fish"};
  return Subjects(session, command->completes);
}

absl::StatusOr<int> Complete(Session& session, const Arguments& arguments) {
  alarm(kLimitSeconds);
  signal(SIGALRM, [](int) { _exit(kExitOk); });
  std::vector<std::string> words = arguments.rest();
  if (words.empty()) words.emplace_back();
  std::vector<std::string> candidates = Candidates(session, words);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const std::string& candidate : candidates) {
    if (candidate == ":files" || candidate.starts_with(words.back()))
      session.Print(candidate + "\n");
  }
  return kExitOk;
}

}  // namespace

const Command kCompleteCommand = {.name = "__complete",
                                  .summary = "answers the shell's completion",
                                  .arguments = "-- WORDS…",
                                  .rest = true,
                                  .run = Complete};

}  // namespace muster::client
