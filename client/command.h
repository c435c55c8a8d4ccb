// One command of jobctl as a row: parsing, help, completion and documentation all read it. A
// command's file in client/commands/ defines its row; command_table.cc lists the rows. Immutable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

class Arguments;
class Session;

struct Flag {
  std::string_view name;        // without dashes; `-` and `_` are alike on the command line
  char letter = 0;              // 0: none
  std::string_view value = {};  // "N", "FILE"; empty: a switch
  std::string_view help = {};
  std::string_view choices = {};  // "a|b|c" when only these are allowed
  // What its value is, for completion, where it has no choices: a subject as in Command::completes,
  // or itself such a list of words.
  std::string_view completes = {};
};

struct Command {
  std::string_view name;       // "run", "ckpt ls"
  std::string_view summary;    // one line
  std::string_view arguments;  // of the usage line: "JOB [STEP]"
  int least = 0;               // number of words
  int most = 0;                // -1: no limit
  std::span<const Flag> flags = {};
  bool listing = false;              // takes -o, --columns, --filter, --sort, --no-headers, --limit
  bool rest = false;                 // takes `-- CMD…`
  bool rest_without_dashes = false;  // the first bare word begins CMD
  // What the words are, one after the other, for completion: job, node, context, file, command,
  // code, signal, step (of the job before it), state, device; or words to choose from, "a|b". The
  // last one also stands for all that may follow.
  std::string_view completes = {};
  std::string_view examples = {};  // lines "command<TAB>what it does"
  std::string_view notes = {};     // more text under the flags
  absl::StatusOr<int> (*run)(Session& session, const Arguments& arguments) = nullptr;
};

// All commands in the order of the help page.
std::span<const Command* const> Commands();
// Null when there is none.
const Command* FindCommand(std::string_view name);
// True for "ckpt", "nodes", …: words that need a second one.
bool IsCommandGroup(std::string_view word);
std::span<const Flag> GlobalFlags();
std::span<const Flag> ListingFlags();
// All that a command takes; null: the global ones.
std::vector<const Flag*> FlagsOf(const Command* command);

}  // namespace muster::client
