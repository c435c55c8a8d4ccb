// Reads the flags of a command from a line: CLI11 splits the words, the rows of the command table say
// what there is, and every refusal is in our own words. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/command.h"

namespace muster::client {

using FlagValues = std::map<std::string, std::vector<std::string>, std::less<>>;

struct FlagsRead {
  FlagValues values;              // by name; a switch has an empty value for each time it was given
  bool help = false;              // --help, and -h where the command has no such letter
  std::vector<std::string> left;  // what is not a flag, in its order, `--` and all behind it too
};

// `line` without the program and the command; null `command`: the global flags. Where
// `first_word_ends`, everything from the first bare word on is left. Errors: JC1002 for a flag that
// the command lacks, with the nearest one, JC1004 for a value that is missing or not allowed.
absl::StatusOr<FlagsRead> ReadFlags(const Command* command, const std::vector<std::string>& line,
                                    bool first_word_ends);

// Null when the command has no such flag.
const Flag* FindFlag(const Command* command, std::string_view name);
// "jobctl help NAME"
std::string HelpFix(const Command* command);

}  // namespace muster::client
