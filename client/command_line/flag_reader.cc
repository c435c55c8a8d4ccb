#include "client/command_line/flag_reader.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/str_join.h"
#include "client/command_line/errors.h"
#include "client/command_line/peer_words.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/word_list.h"

namespace muster::client {
namespace {

// A process argument cannot contain a NUL, so these cannot occur in a command line.
// Added to "--name=": otherwise CLI11 would take the next word as its value.
constexpr std::string_view kEmptyValue{"\0", 1};
// Added as the last word: a flag that takes this as its value was given without one.
constexpr std::string_view kMissingValue{"\0\0", 2};

// A flag from the command table, and the CLI11 option that reads it.
struct Bound {
  const Flag* flag;
  CLI::Option* option;
};

const Flag* FindLetter(const Command* command, char letter) {
  for (const Flag* flag : FlagsOf(command)) {
    if (flag->letter == letter) return flag;
  }
  return nullptr;
}

// "--no-headers,--no_headers,-n"; empty if other flags of the command shadow all of them.
std::string NamesOf(const Flag& flag, const Command* command) {
  std::vector<std::string> names;
  if (FindFlag(command, flag.name) == &flag) {
    names.push_back(common::StrCat("--", flag.name));
    std::string underscored(flag.name);
    std::replace(underscored.begin(), underscored.end(), '-', '_');
    if (underscored != flag.name) names.push_back(common::StrCat("--", underscored));
  }
  if (flag.letter != 0 && FindLetter(command, flag.letter) == &flag) {
    names.push_back({'-', flag.letter});
  }
  return absl::StrJoin(names, ",");
}

std::vector<Bound> BindFlags(const Command* command, CLI::App& app) {
  std::vector<Bound> bound;
  for (const Flag* flag : FlagsOf(command)) {
    const std::string names = NamesOf(*flag, command);
    if (names.empty()) continue;
    CLI::Option* option = flag->NeedsValue() ? app.add_option(names) : app.add_flag(names);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (flag->NeedsValue()) option->expected(1);
    bound.push_back({flag, option});
  }
  return bound;
}

// A command that has a flag of this name or letter.
const Command* CommandWithFlag(std::string_view name) {
  // Most flags that people put before the command belong to listings.
  std::vector<const Command*> commands = {FindCommand("ls")};
  commands.insert(commands.end(), Commands().begin(), Commands().end());
  for (const Command* command : commands) {
    for (const Flag* flag : FlagsOf(command)) {
      if (flag->name == name || (name.size() == 1 && flag->letter == name[0])) return command;
    }
  }
  return nullptr;
}

absl::Status UnknownFlag(const Command* command, std::string_view shown, std::string_view name) {
  const std::string where =
      command == nullptr ? "jobctl" : common::StrCat("jobctl ", command->name);
  const Absent* absent = command != nullptr && command->rest ? FindAbsent(name) : nullptr;
  if (absent != nullptr) {
    return Usage("JC1002", common::StrCat(where, " has no flag ", shown, ": ", absent->what),
                 absent->fix);
  }
  if (command == nullptr) {
    if (const Command* owner = CommandWithFlag(name); owner != nullptr) {
      return Usage("JC1002", common::StrCat("jobctl has no global flag ", shown),
                   common::StrCat("put it after its command: jobctl ", owner->name, " ", shown));
    }
  }
  std::string hint;
  if (const std::string_view peer = PeerFlag(name); !peer.empty()) {
    hint = common::DidYouMean(peer);
  } else {
    std::vector<std::string_view> names;
    for (const Flag* flag : FlagsOf(command)) names.push_back(flag->name);
    if (const std::string_view nearest = common::Nearest(name, names);
        !nearest.empty() && name.size() > 1) {
      hint = common::DidYouMean(common::StrCat("--", nearest));
    }
  }
  return Usage("JC1002", common::StrCat(where, " has no flag ", shown, hint), HelpFix(command));
}

// An error for the first word of `left` that looks like a flag; those after `--` or the first bare
// word are not ours.
absl::Status CheckLeft(const Command* command, const std::vector<std::string>& left,
                       bool first_word_ends) {
  for (const std::string& word : left) {
    const bool is_flag = word.size() > 1 && word[0] == '-';
    if (word == "--" || (first_word_ends && !is_flag)) break;
    if (!is_flag) continue;
    if (!word.starts_with("--")) return UnknownFlag(command, word, word.substr(1));
    std::string name = word.substr(2, word.find('=') - 2);
    std::replace(name.begin(), name.end(), '_', '-');
    return UnknownFlag(command, common::StrCat("--", name), name);
  }
  return absl::OkStatus();
}

absl::Status ValueMissing(const Command* command, const Flag& flag, const std::string& last_word) {
  const std::string shown = last_word.starts_with("--")
                                ? common::StrCat("--", flag.name)
                                : common::StrCat("-", std::string(1, flag.letter));
  return Usage("JC1004", common::StrCat(shown, " needs a value (", flag.value, ")"),
               HelpFix(command));
}

// "-n4", "-qn4": one word of `line` ends with the letter and the value.
bool IsAttached(const Flag& flag, const std::string& value, const std::vector<std::string>& line) {
  return flag.letter != 0 && std::any_of(line.begin(), line.end(), [&](const std::string& word) {
           return word.starts_with('-') && !word.starts_with("--") &&
                  word.ends_with(common::StrCat(std::string(1, flag.letter), value));
         });
}

// The value without what we added and CLI11 left around it.
std::string Bare(const Flag& flag, std::string value, const std::vector<std::string>& line) {
  if (value.ends_with(kEmptyValue)) value.pop_back();
  if (value.starts_with('=') && IsAttached(flag, value, line)) value.erase(0, 1);  // "-n=4"
  return value;
}

absl::Status CheckValue(const Command* command, const Flag& flag, const std::string& value,
                        const std::vector<std::string>& line) {
  if (!flag.NeedsValue()) {
    if (value == "true") return absl::OkStatus();  // CLI11's value for a switch that was given
    if (flag.TakesValue() && value != kEmptyValue) return absl::OkStatus();
    if (flag.TakesValue()) {
      return Usage("JC1004", common::StrCat("--", flag.name, "= has no value"),
                   common::StrCat("--", flag.name, flag.value, ", or --", flag.name, " alone"));
    }
    return Usage("JC1004", common::StrCat("--", flag.name, " takes no value"), HelpFix(command));
  }
  if (value == kMissingValue) return ValueMissing(command, flag, line.back());
  // "-np 4" is mpirun's syntax.
  if (flag.value == "N" && !value.empty() && value[0] >= 'a' && value[0] <= 'z' &&
      IsAttached(flag, value, line)) {
    const std::string word = common::StrCat(std::string(1, flag.letter), value);
    return UnknownFlag(command, common::StrCat("-", word), word);
  }
  const std::string bare = Bare(flag, value, line);
  if (!flag.choices.empty() && !common::HasWord(flag.choices, bare)) {
    return Usage("JC1004",
                 common::StrCat("--", flag.name, " takes ", flag.choices, ", not \"", bare, "\""),
                 HelpFix(command));
  }
  return absl::OkStatus();
}

}  // namespace

std::string HelpFix(const Command* command) {
  return command == nullptr ? "jobctl help" : common::StrCat("jobctl help ", command->name);
}

const Flag* FindFlag(const Command* command, std::string_view name) {
  for (const Flag* flag : FlagsOf(command)) {
    if (flag->name == name) return flag;
  }
  return nullptr;
}

absl::StatusOr<FlagsRead> ReadFlags(const Command* command, const std::vector<std::string>& line,
                                    bool first_word_ends) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.prefix_command(first_word_ends);
  const std::vector<Bound> bound = BindFlags(command, app);
  CLI::Option* help = app.add_flag(FindLetter(command, 'h') == nullptr ? "--help,-h" : "--help");

  std::vector<std::string> words = {
      std::string(kMissingValue)};  // last word first, as CLI11 expects
  for (auto word = line.rbegin(); word != line.rend(); ++word) {
    const bool empty_value = word->starts_with("--") && word->find('=') == word->size() - 1;
    words.push_back(empty_value ? common::StrCat(*word, kEmptyValue) : *word);
  }
  app.parse(words);

  FlagsRead read{.help = help->count() > 0, .left = app.remaining()};
  if (!read.left.empty() && read.left.back() == kMissingValue) read.left.pop_back();
  for (std::string& word : read.left) {
    if (word.ends_with(kEmptyValue)) word.pop_back();
  }
  RETURN_IF_ERROR(CheckLeft(command, read.left, first_word_ends));
  for (const auto& [flag, option] : bound) {
    for (const std::string& value : option->results()) {
      RETURN_IF_ERROR(CheckValue(command, *flag, value, line));
      read.values[std::string(flag->name)].push_back(
          flag->NeedsValue() || (flag->TakesValue() && value != "true") ? Bare(*flag, value, line)
                                                                        : "");
    }
  }
  return read;
}

}  // namespace muster::client
