#include <algorithm>
#include <array>

#include "client/command_line/command.h"
#include "client/commands/commands.h"

namespace muster::client {
namespace {

constexpr Flag kGlobalFlags[] = {
    {"server", 's', "HOST:PORT", "coordinator to use, or several: a:7700,b:7700"},
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

std::span<const Command* const> Commands() {
  static const auto commands = [] {
#define MUSTER_ROW(name) &k##name##Command,
    std::array rows = {MUSTER_COMMANDS(MUSTER_ROW)};
#undef MUSTER_ROW
    std::sort(rows.begin(), rows.end(),
              [](const Command* one, const Command* other) { return one->place < other->place; });
    return rows;
  }();
  return commands;
}
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
  const auto commands = Commands();
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [name](const Command* command) { return command->name == name; });
  return found == commands.end() ? nullptr : *found;
}

bool IsCommandGroup(std::string_view word) {
  const auto commands = Commands();
  return std::any_of(commands.begin(), commands.end(), [word](const Command* command) {
    return command->name.size() > word.size() && command->name.starts_with(word) &&
           command->name[word.size()] == ' ';
  });
}

}  // namespace muster::client
