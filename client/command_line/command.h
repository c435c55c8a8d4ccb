// One command of jobctl as a row: parsing, help, completion and documentation all read it. A
// command's row is defined in its file in client/commands/, where it is found (commands.h).
// Immutable.
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
  std::string_view name;  // without dashes; `-` and `_` are equivalent on the command line
  char letter = 0;        // 0: none
  // "N", "FILE"; empty: a switch; "=DIR": a switch that takes a value in the same word, --sync=DIR
  std::string_view value = {};
  std::string_view help = {};
  std::string_view choices = {};  // "a|b|c" if only these are allowed
  // For completion of a value without choices: a subject as in Command::completes, or such a list
  // of words.
  std::string_view completes = {};

  bool NeedsValue() const { return !value.empty() && value[0] != '='; }
  bool TakesValue() const { return !value.empty(); }
};

struct Command {
  std::string_view name;       // "run", "ckpt ls"
  int place = 0;               // on the help page, which is in ascending order
  std::string_view summary;    // one line
  std::string_view arguments;  // of the usage line: "JOB [STEP]"
  int least = 0;               // minimum number of words
  int most = 0;                // -1: no limit
  std::span<const Flag> flags = {};
  bool listing = false;              // takes -o, --columns, --filter, --sort, --no-headers, --limit
  bool rest = false;                 // accepts `-- CMD…`
  bool rest_without_dashes = false;  // the first bare word starts CMD
  // False: also runs if the settings are invalid, because it helps to fix them.
  bool needs_settings = true;
  std::string_view needs_none_with = {};  // likewise with this flag
  // The kinds of the words, in order, for completion: job, node, context, file, command, code,
  // signal, step (of the preceding job), state, device; or words to choose from, "a|b". The last
  // one also applies to all that may follow.
  std::string_view completes = {};
  std::string_view examples = {};  // lines "command<TAB>what it does"
  std::string_view notes = {};     // additional text after the flags
  absl::StatusOr<int> (*run)(Session& session, const Arguments& arguments) = nullptr;
};

// All commands in the order of the help page.
std::span<const Command* const> Commands();
// Null if there is none.
const Command* FindCommand(std::string_view name);
// True for "ckpt", "nodes", …: words that need a second one.
bool IsCommandGroup(std::string_view word);
std::span<const Flag> GlobalFlags();
std::span<const Flag> ListingFlags();
// All flags that a command accepts; null: the global ones.
std::vector<const Flag*> FlagsOf(const Command* command);

}  // namespace muster::client
