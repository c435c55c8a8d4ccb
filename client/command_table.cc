#include <algorithm>
#include <iterator>

#include "client/command.h"
#include "client/commands/commands.h"

namespace muster::client {
namespace {

constexpr const Command* kCommands[] = {
    &kRunCommand,          &kSubmitCommand,
    &kValidateCommand,     &kLsCommand,
    &kShowCommand,         &kWhyCommand,
    &kLogsCommand,         &kEventsCommand,
    &kMetricsCommand,      &kCkptLsCommand,
    &kCkptShowCommand,     &kCkptVerifyCommand,
    &kCkptPullCommand,     &kCkptRmCommand,
    &kWaitCommand,         &kCancelCommand,
    &kSignalCommand,       &kReleaseCommand,
    &kStackCommand,        &kRerunCommand,
    &kRmCommand,           &kNodesLsCommand,
    &kNodesShowCommand,    &kNodesDrainCommand,
    &kNodesUndrainCommand, &kNodesDeclareDeadCommand,
    &kNodesRmCommand,      &kUpCommand,
    &kDownCommand,         &kContextLsCommand,
    &kContextUseCommand,   &kContextAddCommand,
    &kContextRmCommand,    &kContextShowCommand,
    &kConfigViewCommand,   &kCompletionCommand,
    &kCompleteCommand,     &kExplainCommand,
    &kVersionCommand,      &kHelpCommand,
};

constexpr Flag kGlobalFlags[] = {
    {"server", 's', "HOST:PORT", "coordinator to talk to"},
    {"context", 'c', "NAME", "configured context to use", {}, "context"},
    {"quiet", 'q', "", "no notes on stderr"},
    {"verbose", 'v', "", "say more on stderr"},
    {"color", 0, "WHEN", "colours: auto, always, never", "auto|always|never"},
    {"yes", 'y', "", "do not ask"},
    {"no-input", 0, "", "never ask: fail instead"},
    {"timeout", 0, "TIME", "how long the coordinator may take to answer (10s)"},
    {"debug", 0, "", "gRPC details on stderr"},
    {"version", 'V', "", "jobctl's version, and nothing else"},
};

constexpr Flag kListingFlags[] = {
    {"output", 'o', "FORMAT", "table, wide, json, jsonl, yaml, csv or name",
     "table|wide|json|jsonl|yaml|csv|name"},
    {"columns", 0, "A,B", "only these columns, in this order"},
    {"filter", 0, "K=V,K!=V", "only rows that match"},
    {"sort", 0, "COLUMN", "sort by it; -COLUMN: descending"},
    {"no-headers", 0, "", "no header line"},
    {"limit", 0, "N", "at most N rows"},
};

}  // namespace

std::span<const Command* const> Commands() { return kCommands; }
std::span<const Flag> GlobalFlags() { return kGlobalFlags; }
std::span<const Flag> ListingFlags() { return kListingFlags; }

std::vector<const Flag*> FlagsOf(const Command* command) {
  std::vector<const Flag*> flags;
  const auto add = [&](std::span<const Flag> more) {
    for (const Flag& flag : more) flags.push_back(&flag);
  };
  // The command's own come first: `wait --timeout` shadows the global --timeout.
  if (command != nullptr) add(command->flags);
  if (command != nullptr && command->listing) add(ListingFlags());
  add(GlobalFlags());
  return flags;
}

const Command* FindCommand(std::string_view name) {
  const auto found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                  [name](const Command* command) { return command->name == name; });
  return found == std::end(kCommands) ? nullptr : *found;
}

bool IsCommandGroup(std::string_view word) {
  return std::any_of(std::begin(kCommands), std::end(kCommands), [word](const Command* command) {
    return command->name.size() > word.size() && command->name.starts_with(word) &&
           command->name[word.size()] == ' ';
  });
}

}  // namespace muster::client
