// jobctl help and completion.
#include "client/help/help.h"

#include "absl/strings/str_join.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/command_line/peer_words.h"
#include "client/commands/commands.h"
#include "client/job_file/job_file.h"
#include "client/session/session.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

constexpr Flag kHelpFlags[] = {
    {"markdown", 0, "", "all commands as one document; with jobfile: its table of keys"},
};

absl::StatusOr<int> Help(Session& session, const Arguments& arguments) {
  const std::string topic = absl::StrJoin(arguments.words(), " ");
  if (arguments.Has("markdown")) {
    session.Print(topic == "jobfile" ? JobKeyTable() : HelpDocument());
    return kExitOk;
  }
  if (topic.empty()) {
    session.Print(OverviewHelp());
  } else if (topic == "exit-codes") {
    session.Print(ExitCodeHelp());
  } else if (topic == "jobfile") {
    session.Print(JobFileHelp());
  } else if (IsCommandGroup(topic)) {
    session.Print(GroupHelp(topic));
  } else if (const Command* command = FindCommand(topic); command != nullptr) {
    session.Print(CommandHelp(*command));
  } else {
    std::vector<std::string_view> names = {"exit-codes", "jobfile"};
    for (const Command* each : Commands()) names.push_back(each->name);
    std::string_view nearest = PeerCommand(topic);
    if (nearest.empty()) nearest = common::Nearest(topic, names);
    return Usage("JC1001",
                 common::StrCat("there is no help on \"", topic, "\"", common::DidYouMean(nearest)),
                 "jobctl help");
  }
  return kExitOk;
}

absl::StatusOr<int> Completion(Session& session, const Arguments& arguments) {
  const std::string& shell = arguments.words()[0];
  if (shell != "bash" && shell != "zsh" && shell != "fish") {
    return Usage("JC1004",
                 common::StrCat("completion supports bash, zsh and fish, not \"", shell, "\""),
                 "jobctl completion bash");
  }
  session.Print(CompletionScript(shell));
  return kExitOk;
}

}  // namespace

const Command kHelpCommand = {.name = "help",
                              .place = 790,
                              .summary = "show this page, a command's, exit-codes, or jobfile",
                              .arguments = "[COMMAND]",
                              .least = 0,
                              .most = 2,
                              .flags = kHelpFlags,
                              .needs_settings = false,
                              .completes = "command",
                              .examples =
                                  "jobctl help run\ta command\n"
                                  "jobctl help exit-codes\twhat scripts may rely on\n"
                                  "jobctl help jobfile\tthe keys of a job file",
                              .run = Help};
const Command kCompletionCommand = {
    .name = "completion",
    .place = 750,
    .summary = "print a completion script for bash, zsh or fish",
    .arguments = "bash|zsh|fish",
    .least = 1,
    .most = 1,
    .needs_settings = false,
    .completes = "bash|zsh|fish",
    .examples =
        "jobctl completion bash > ~/.local/share/bash-completion/completions/jobctl\tonce\n"
        "jobctl completion fish > ~/.config/fish/completions/jobctl.fish\tonce",
    .run = Completion};

}  // namespace muster::client
