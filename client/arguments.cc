#include "client/arguments.h"

#include <algorithm>
#include <limits>

#include "client/errors.h"
#include "client/peer_words.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "common/units.h"
#include "common/word_list.h"

namespace muster::client {
namespace {

std::string Dashed(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::string HelpFix(const Command* command) {
  return command == nullptr ? "jobctl help" : common::StrCat("jobctl help ", command->name);
}

const Flag* FindFlag(const Command* command, std::string_view name) {
  for (const Flag* flag : FlagsOf(command)) {
    if (flag->name == name) return flag;
  }
  return nullptr;
}

const Flag* FindLetter(const Command* command, char letter) {
  for (const Flag* flag : FlagsOf(command)) {
    if (flag->letter == letter) return flag;
  }
  return nullptr;
}

// A command that has a flag of this name or letter.
const Command* CommandWithFlag(std::string_view name) {
  // Most flags that people put first are those of listings.
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
      return Usage(
          "JC1002", common::StrCat("jobctl has no flag ", shown, " of all commands"),
          common::StrCat("it stands behind its command: jobctl ", owner->name, " ", shown));
    }
  }
  std::string hint;
  if (const std::string_view peer = PeerFlag(name); !peer.empty()) {
    hint = DidYouMean(peer);
  } else {
    std::vector<std::string_view> names;
    for (const Flag* flag : FlagsOf(command)) names.push_back(flag->name);
    if (const std::string_view nearest = common::Nearest(name, names);
        !nearest.empty() && name.size() > 1) {
      hint = DidYouMean(common::StrCat("--", nearest));
    }
  }
  return Usage("JC1002", common::StrCat(where, " has no flag ", shown, hint), HelpFix(command));
}

absl::Status UnknownCommand(std::string_view name, std::string_view group) {
  const std::string full = group.empty() ? std::string(name) : common::StrCat(group, " ", name);
  std::string_view nearest = PeerCommand(full);
  std::vector<std::string_view> names;
  if (nearest.empty()) {
    for (const Command* command : Commands()) names.push_back(command->name);
    nearest = common::Nearest(full, names);
  }
  return Usage("JC1001",
               common::StrCat("jobctl has no command \"", full, "\"", DidYouMean(nearest)),
               nearest.empty() ? "jobctl help" : common::StrCat("jobctl ", nearest, " --help"));
}

// `jobctl nodes` alone, or with flags only, lists. Null when a command of the group or a request
// for help follows, or when the group's list needs an argument.
const Command* DefaultOfGroup(std::string_view group, const std::vector<std::string>& line,
                              size_t at) {
  for (size_t i = at; i < line.size(); ++i) {
    const std::string& word = line[i];
    if (i == at && !word.starts_with('-')) return nullptr;
    if (word == "-h" || word == "--help") return nullptr;
    if (FindCommand(common::StrCat(group, " ", word)) != nullptr) return nullptr;
  }
  for (const std::string_view verb : {"ls", "view"}) {
    const Command* command = FindCommand(common::StrCat(group, " ", verb));
    if (command != nullptr && command->least == 0) return command;
  }
  return nullptr;
}

}  // namespace

struct Arguments::Cursor {
  const std::vector<std::string>& line;
  size_t at = 0;
  bool help = false;
  std::string group;

  bool done() const { return at >= line.size(); }
  const std::string& word() const { return line[at]; }
};

absl::Status Arguments::Store(const Flag& flag, std::string value) {
  if (!flag.choices.empty()) {
    if (!common::HasWord(flag.choices, value)) {
      return Usage(
          "JC1004",
          common::StrCat("--", flag.name, " takes ", flag.choices, ", not \"", value, "\""),
          HelpFix(command_));
    }
  }
  flags_[std::string(flag.name)].push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status Arguments::ReadLong(Cursor& cursor) {
  const std::string word = cursor.word();
  const size_t equals = word.find('=');
  const std::string name =
      Dashed(std::string_view(word).substr(2, equals == std::string::npos ? equals : equals - 2));
  ++cursor.at;
  if (name == "help") {
    cursor.help = true;
    return absl::OkStatus();
  }
  const Flag* flag = FindFlag(command_, name);
  if (flag == nullptr) return UnknownFlag(command_, common::StrCat("--", name), name);
  if (flag->value.empty()) {
    if (equals != std::string::npos) {
      return Usage("JC1004", common::StrCat("--", name, " takes no value"), HelpFix(command_));
    }
    return Store(*flag, "");
  }
  if (equals != std::string::npos) return Store(*flag, word.substr(equals + 1));
  if (cursor.done()) {
    return Usage("JC1004", common::StrCat("--", name, " needs a value (", flag->value, ")"),
                 HelpFix(command_));
  }
  return Store(*flag, cursor.line[cursor.at++]);
}

absl::Status Arguments::ReadShort(Cursor& cursor) {
  const std::string word = cursor.word();
  ++cursor.at;
  for (size_t i = 1; i < word.size(); ++i) {
    if (word[i] == 'h' && FindLetter(command_, 'h') == nullptr) {
      cursor.help = true;
      continue;
    }
    const Flag* flag = FindLetter(command_, word[i]);
    if (flag == nullptr) {
      // "-np 4" is mpirun's: look at the whole word too.
      const std::string_view whole = std::string_view(word).substr(1);
      return UnknownFlag(command_, common::StrCat("-", whole), whole);
    }
    if (flag->value.empty()) {
      RETURN_IF_ERROR(Store(*flag, ""));
      continue;
    }
    if (i + 1 < word.size()) {
      const size_t from = word[i + 1] == '=' ? i + 2 : i + 1;
      const std::string value = word.substr(from);
      if (i == 1 && flag->value == "N" && !value.empty() && (value[0] < '0' || value[0] > '9') &&
          value[0] != '-') {
        return UnknownFlag(command_, word, std::string_view(word).substr(1));
      }
      return Store(*flag, value);
    }
    if (cursor.done()) {
      return Usage(
          "JC1004",
          common::StrCat("-", std::string(1, word[i]), " needs a value (", flag->value, ")"),
          HelpFix(command_));
    }
    return Store(*flag, cursor.line[cursor.at++]);
  }
  return absl::OkStatus();
}

absl::Status Arguments::CheckWords() const {
  const int count = static_cast<int>(words_.size());
  const std::string usage = common::StrCat(
      "jobctl ", command_->name, command_->arguments.empty() ? "" : " ", command_->arguments);
  if (count < command_->least) {
    return Usage("JC1004", common::StrCat("an argument is missing: ", usage), HelpFix(command_));
  }
  if (command_->most >= 0 && count > command_->most && command_->rest) {
    std::string line;
    for (const std::string& word : words_) common::StrAppend(&line, " ", word);
    return Usage(
        "JC1004",
        common::StrCat("\"", words_[command_->most], "\" is one argument too many: ", usage),
        common::StrCat("a command stands behind `--`: jobctl ", command_->name, " --", line));
  }
  if (command_->most >= 0 && count > command_->most) {
    return Usage(
        "JC1004",
        common::StrCat("\"", words_[command_->most], "\" is one argument too many: ", usage),
        HelpFix(command_));
  }
  if (has_rest_ && rest_.empty()) {
    return Usage("JC1004", "nothing follows `--`",
                 common::StrCat("jobctl ", command_->name, " -- COMMAND"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Arguments> Arguments::Parse(const std::vector<std::string>& line) {
  Arguments result;
  Cursor cursor{line};
  while (!cursor.done()) {
    const std::string& word = cursor.word();
    if (word == "--") {
      if (result.command_ == nullptr || !result.command_->rest) {
        return Usage("JC1004", "`--` is for commands that start something",
                     "jobctl run -n 2 -- python train.py");
      }
      result.has_rest_ = true;
      result.rest_.assign(line.begin() + cursor.at + 1, line.end());
      break;
    }
    if (word.size() > 2 && word.starts_with("--")) {
      RETURN_IF_ERROR(result.ReadLong(cursor));
    } else if (word.size() > 1 && word[0] == '-') {
      RETURN_IF_ERROR(result.ReadShort(cursor));
    } else if (result.command_ == nullptr) {
      const std::string name =
          cursor.group.empty() ? word : common::StrCat(cursor.group, " ", word);
      ++cursor.at;
      if (cursor.group.empty() && IsCommandGroup(word)) {
        cursor.group = word;
        result.command_ = DefaultOfGroup(word, line, cursor.at);
        continue;
      }
      result.command_ = FindCommand(name);
      if (result.command_ == nullptr) return UnknownCommand(word, cursor.group);
    } else if (result.command_->rest_without_dashes) {
      result.has_rest_ = true;
      result.rest_.assign(line.begin() + cursor.at, line.end());
      break;
    } else {
      result.words_.push_back(word);
      ++cursor.at;
    }
  }
  if (cursor.help || (result.command_ == nullptr && !result.Has("version"))) {
    Arguments help;
    help.command_ = FindCommand("help");
    help.flags_ = result.flags_;
    if (result.command_ != nullptr) {
      help.words_ = {std::string(result.command_->name)};
    } else if (!cursor.group.empty()) {
      help.words_ = {cursor.group};
    }
    return help;
  }
  if (result.Has("version")) {
    result.command_ = FindCommand("version");
    result.flags_["client"] = {""};
    result.words_.clear();
    return result;
  }
  RETURN_IF_ERROR(result.CheckWords());
  return result;
}

std::string Arguments::Get(std::string_view flag, std::string_view otherwise) const {
  const auto found = flags_.find(flag);
  return found == flags_.end() ? std::string(otherwise) : found->second.back();
}

std::vector<std::string> Arguments::All(std::string_view flag) const {
  const auto found = flags_.find(flag);
  return found == flags_.end() ? std::vector<std::string>() : found->second;
}

absl::StatusOr<int64_t> Arguments::Number(std::string_view flag, int64_t least, int64_t most,
                                          int64_t otherwise) const {
  if (!Has(flag)) return otherwise;
  const std::string text = Get(flag);
  const absl::StatusOr<int64_t> number = common::ParseInteger(text);
  if (!number.ok() || *number < least || *number > most) {
    const std::string range = most == std::numeric_limits<int64_t>::max()
                                  ? common::StrCat("of ", least, " or more")
                                  : common::StrCat("from ", least, " to ", most);
    const Flag* known = FindFlag(command_, flag);
    const std::string shown =
        known != nullptr && known->letter != 0
            ? common::StrCat("-", std::string(1, known->letter), " (--", flag, ")")
            : common::StrCat("--", flag);
    return Usage("JC1004",
                 common::StrCat(shown, " takes a whole number ", range, ", not \"", text, "\""),
                 HelpFix(command_));
  }
  return *number;
}

absl::StatusOr<int64_t> Arguments::DurationMs(std::string_view flag, int64_t otherwise) const {
  if (!Has(flag)) return otherwise;
  const absl::StatusOr<int64_t> duration = common::ParseDurationMs(Get(flag));
  if (!duration.ok()) {
    return Usage("JC1004",
                 common::StrCat("--", flag, " takes a duration like 30s, 10m or 2h, not \"",
                                Get(flag), "\""),
                 HelpFix(command_));
  }
  return *duration;
}

}  // namespace muster::client
