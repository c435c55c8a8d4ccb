// Reads a command's flags from a command line. CLI11 splits the words, the rows of the command
// table define the flags, and all error messages are our own. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/command_line/command.h"

namespace muster::client {

using FlagValues = std::map<std::string, std::vector<std::string>, std::less<>>;

struct FlagsRead {
  FlagValues values;              // by name; a switch gets an empty value each time it is given
  bool help = false;              // --help, or -h if the command has no flag with that letter
  std::vector<std::string> left;  // words that are not flags, in order, with `--` and all after it
};

// `line` excludes the program and the command; a null `command` means the global flags. With
// `first_word_ends`, everything from the first bare word on is left. Errors: JC1002 for a flag that
// the command does not have, suggesting the nearest one; JC1004 for a missing or invalid value.
absl::StatusOr<FlagsRead> ReadFlags(const Command* command, const std::vector<std::string>& line,
                                    bool first_word_ends);

// Null if the command has no such flag.
const Flag* FindFlag(const Command* command, std::string_view name);
// "jobctl help NAME"
std::string HelpFix(const Command* command);

}  // namespace muster::client
