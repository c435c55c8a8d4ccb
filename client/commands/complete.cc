// jobctl __complete -- WORDS…: called by the shell's completion. Answers are lines; ":files" means
// file names.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/signals.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/error_codes.h"
#include "common/text/strings.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

// People wait at the prompt: a later answer is useless.
constexpr unsigned kLimitSeconds = 2;

using Words = std::vector<std::string>;

Words Split(std::string_view list, char at) {
  Words words;
  while (!list.empty()) {
    const size_t end = std::min(list.find(at), list.size());
    words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

Words JobNames(Connection& connection) {
  v1::ListJobsRequest request;
  request.set_limit(200);
  Words names = {"@last"};
  const auto jobs = connection.ListJobs(request);
  if (!jobs.ok()) return names;
  for (const v1::JobSummary& job : jobs->jobs()) names.push_back(job.name());
  return names;
}

Words NodeNames(Connection& connection) {
  Words names;
  const auto nodes = connection.ListNodes();
  if (!nodes.ok()) return names;
  for (const v1::NodeView& node : nodes->nodes()) names.push_back(node.record().facts().name());
  return names;
}

// The checkpoints that can be used.
Words Steps(Connection& connection, const std::string& job) {
  Words steps = {"last"};
  const auto found = connection.GetJob(job);
  if (!found.ok()) return steps;
  for (const v1::Checkpoint& checkpoint : found->record().checkpoints()) {
    if (checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED)
      steps.push_back(std::to_string(checkpoint.step()));
  }
  return steps;
}

Words CommandWords(std::string_view group) {
  Words names;
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

Words StateNames() {
  Words names;
  for (int i = 1; i <= v1::JobState_MAX; ++i)
    names.push_back(absl::AsciiStrToLower(StateName(static_cast<v1::JobState>(i))));
  return names;
}

// All candidates for `what` (Command::completes); `before`: the command's words before this one.
Words Subjects(Session& session, std::string_view what, const Words& before) {
  if (what.find('|') != std::string_view::npos) return Split(what, '|');
  if (what == "file") return {":files"};
  if (what == "state") return StateNames();
  if (what == "signal") {
    const auto names = SignalNames();
    return Words(names.begin(), names.end());
  }
  if (what == "command") {
    Words names = CommandWords(before.empty() ? "" : before[0]);
    if (before.empty()) names.insert(names.end(), {"exit-codes", "jobfile"});
    return names;
  }
  Words names;
  if (what == "context") {
    names.push_back("private");
    for (const auto& [name, unused] : session.settings().file().contexts) names.push_back(name);
    return names;
  }
  if (what == "device") {
    for (const common::DeviceKind& kind : common::DeviceKinds()) names.emplace_back(kind.name);
    return names;
  }
  if (what == "code") {
    for (const common::ErrorCode& code : common::ErrorCodes()) names.emplace_back(code.code);
    return names;
  }
  if (what != "job" && what != "node" && what != "step") return names;
  const absl::StatusOr<Connection*> connection = session.ConnectIfAny();
  if (!connection.ok() || *connection == nullptr) return names;
  if (what == "job") return JobNames(**connection);
  if (what == "node") return NodeNames(**connection);
  return before.empty() ? Words{"last"} : Steps(**connection, before[0]);
}

// The flag in "--output", or the last letter of "-ao", if it takes a value; otherwise null.
const Flag* OpenFlag(const Command* command, std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return nullptr;
  for (const Flag* flag : FlagsOf(command)) {
    const bool named = word.starts_with("--") ? word.substr(2) == flag->name
                                              : flag->letter != 0 && word.back() == flag->letter;
    if (named) return flag->NeedsValue() ? flag : nullptr;
  }
  return nullptr;
}

// The line up to the word being completed.
struct Typed {
  const Command* command = nullptr;
  std::string group;
  Words words;                 // the command's, without flags
  const Flag* open = nullptr;  // the last word is its value
  bool rest = false;           // after `--`, or inside a command to run
};

Typed Read(const Words& line) {
  Typed typed;
  for (size_t i = 0; i + 1 < line.size() && !typed.rest; ++i) {
    const std::string& word = line[i];
    typed.open = nullptr;
    if (word == "--") {
      typed.rest = true;
    } else if (word.size() > 1 && word[0] == '-') {
      typed.open = OpenFlag(typed.command, word);
      if (typed.open != nullptr && i + 2 < line.size()) ++i;
    } else if (typed.command != nullptr) {
      typed.words.push_back(word);
      typed.rest = typed.command->rest_without_dashes;
    } else if (typed.group.empty() && IsCommandGroup(word)) {
      typed.group = word;
    } else {
      typed.command =
          FindCommand(typed.group.empty() ? word : common::StrCat(typed.group, " ", word));
    }
  }
  return typed;
}

Words ValuesOf(Session& session, const Flag& flag, const Typed& typed, std::string_view begun) {
  if (!flag.choices.empty()) return Split(flag.choices, '|');
  if (flag.completes.empty()) return {":files"};
  Words values = Subjects(session, flag.completes, typed.words);
  // A list, "a,b": keep what precedes the last comma.
  const bool is_list = flag.value.find(',') != std::string_view::npos;
  if (const size_t comma = begun.rfind(','); is_list && comma != std::string_view::npos) {
    for (std::string& value : values) value.insert(0, begun.substr(0, comma + 1));
  }
  return values;
}

// The candidates for the last word of `line`, before filtering by what was typed.
Words Candidates(Session& session, const Words& line) {
  const Typed typed = Read(line);
  const std::string& last = line.back();
  if (typed.rest) return {":files"};
  if (typed.open != nullptr) return ValuesOf(session, *typed.open, typed, last);
  if (const size_t equals = last.find('='); last.starts_with("--") && equals != std::string::npos) {
    const std::string name = last.substr(0, equals);
    const Flag* flag = FindFlag(typed.command, std::string_view(name).substr(2));
    if (flag == nullptr || !flag->TakesValue()) return {};
    Words values = ValuesOf(session, *flag, typed, std::string_view(last).substr(equals + 1));
    for (std::string& value : values) {
      if (value != ":files") value = common::StrCat(name, "=", value);
    }
    return values;
  }
  if (last.starts_with("-")) {
    Words names = {"--help"};
    for (const Flag* flag : FlagsOf(typed.command))
      names.push_back(common::StrCat("--", flag->name));
    return names;
  }
  if (typed.command == nullptr) return CommandWords(typed.group);
  const Words subjects = Split(typed.command->completes, ' ');
  const int at = static_cast<int>(typed.words.size());
  const bool full =
      typed.command->most >= 0 && at >= typed.command->most && !typed.command->rest_without_dashes;
  if (subjects.empty() || full) return {};
  return Subjects(session, subjects[std::min<size_t>(typed.words.size(), subjects.size() - 1)],
                  typed.words);
}

// bash splits "--output=js" into three words.
Words Joined(const Words& line) {
  Words joined;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == "=" && i > 0 && line[i - 1].starts_with("--")) {
      if (i + 1 == line.size()) joined.emplace_back();
      continue;
    }
    joined.push_back(line[i]);
  }
  return joined;
}

absl::StatusOr<int> Complete(Session& session, const Arguments& arguments) {
  alarm(kLimitSeconds);
  signal(SIGALRM, [](int) { _exit(kExitOk); });
  Words words = Joined(arguments.rest());
  if (words.empty()) words.emplace_back();
  Words candidates = Candidates(session, words);
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
                                  .place = 760,
                                  .summary = "used by shell completion",
                                  .arguments = "-- WORDS…",
                                  .rest = true,
                                  .run = Complete};

}  // namespace muster::client
