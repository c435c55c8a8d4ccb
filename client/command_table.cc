#include <algorithm>
#include <iterator>

#include "client/command.h"
#include "client/commands/commands.h"

namespace muster::client {
namespace {

#define MUSTER_ROW(name) &k##name##Command,
constexpr const Command* kCommands[] = {MUSTER_COMMANDS(MUSTER_ROW)};
#undef MUSTER_ROW

constexpr Flag kGlobalFlags[] = {
    {"server", 's', "HOST:PORT", "coordinator to use"},
    {"context", 'c', "NAME", "configured context to use", {}, "context"},
    {"quiet", 'q', "", "suppress notes on stderr"},
    {"verbose", 'v', "", "print more on stderr"},
    {"color", 0, "WHEN", "colors: auto, always, never", "auto|always|never"},
    {"yes", 'y', "", "do not ask for confirmation"},
    {"no-input", 0, "", "never prompt: fail instead"},
    {"timeout", 0, "TIME", "how long to wait for the coordinator's answer (10s)"},
    {"debug", 0, "", "gRPC details on stderr"},
    {"version", 'V', "", "print only jobctl's version"},
};

constexpr Flag kListingFlags[] = {
    {"output", 'o', "FORMAT", "table, wide, json, jsonl, yaml, csv or name",
     "table|wide|json|jsonl|yaml|csv|name"},
    {"columns", 0, "A,B", "only these columns, in this order"},
    {"filter", 0, "K=V,K!=V", "only matching rows"},
    {"sort", 0, "COLUMN", "sort by COLUMN; -COLUMN: descending"},
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
  // The command's own flags come first: `wait --timeout` shadows the global --timeout.
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
