#include "client/command_line/arguments.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_split.h"
#include "client/command_line/errors.h"
#include "client/command_line/peer_words.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

absl::Status UnknownCommand(std::string_view name, std::string_view group) {
  const std::string full = group.empty() ? std::string(name) : common::StrCat(group, " ", name);
  if (const Absent* absent = FindAbsentCommand(full); absent != nullptr) {
    return Usage("JC1001", common::StrCat("jobctl has no command \"", full, "\": ", absent->what),
                 absent->fix);
  }
  std::string_view nearest = PeerCommand(full);
  std::vector<std::string_view> names;
  if (nearest.empty()) {
    for (const Command* command : Commands()) names.push_back(command->name);
    nearest = common::Nearest(full, names);
  }
  return Usage("JC1001",
               common::StrCat("jobctl has no command \"", full, "\"", common::DidYouMean(nearest)),
               nearest.empty() ? "jobctl help" : common::StrCat("jobctl ", nearest, " --help"));
}

absl::Status NothingToStart() {
  return Usage("JC1004", "`--` is for commands that start something",
               "jobctl run -n 2 -- python train.py");
}

// `jobctl nodes` without words, or only with flags, lists. Null when a command of the group or a
// request for help follows, or when the group's list needs an argument.
const Command* DefaultOfGroup(std::string_view group, const std::vector<std::string>& left) {
  if (!left.empty() && !left[0].starts_with('-')) return nullptr;
  for (const std::string& word : left) {
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

std::string Arguments::UsageLine() const {
  return common::StrCat("jobctl ", command_->name, command_->arguments.empty() ? "" : " ",
                        command_->arguments);
}

absl::Status Arguments::CheckMost(int most) const {
  if (most < 0 || static_cast<int>(words_.size()) <= most) return absl::OkStatus();
  std::string line;
  for (const std::string& word : words_) common::StrAppend(&line, " ", word);
  return Usage(
      "JC1004", common::StrCat("\"", words_[most], "\" is one argument too many: ", UsageLine()),
      command_->rest
          ? common::StrCat("a command stands behind `--`: jobctl ", command_->name, " --", line)
          : HelpFix(command_));
}

absl::Status Arguments::CheckWords() const {
  if (static_cast<int>(words_.size()) < command_->least) {
    return Usage("JC1004", common::StrCat("an argument is missing: ", UsageLine()),
                 HelpFix(command_));
  }
  RETURN_IF_ERROR(CheckMost(command_->most));
  if (has_rest_ && rest_.empty()) {
    return Usage("JC1004", "nothing follows `--`",
                 common::StrCat("jobctl ", command_->name, " -- COMMAND"));
  }
  return absl::OkStatus();
}

absl::Status Arguments::Read(std::vector<std::string>* left, bool first_word_ends) {
  ASSIGN_OR_RETURN(FlagsRead read, ReadFlags(command_, *left, first_word_ends));
  for (auto& [name, values] : read.values) {
    std::vector<std::string>& all = flags_[name];
    all.insert(all.end(), values.begin(), values.end());
  }
  help_ |= read.help;
  *left = std::move(read.left);
  return absl::OkStatus();
}

// The global flags and the one or two words before the command's own: sets command_ and group_.
absl::Status Arguments::ReadCommand(std::vector<std::string>* left) {
  while (command_ == nullptr) {
    RETURN_IF_ERROR(Read(left, true));
    if (left->empty()) break;
    const std::string word = left->front();
    if (word == "--") return NothingToStart();
    left->erase(left->begin());
    if (group_.empty() && IsCommandGroup(word)) {
      group_ = word;
      command_ = DefaultOfGroup(word, *left);
      continue;
    }
    command_ = FindCommand(group_.empty() ? word : common::StrCat(group_, " ", word));
    if (command_ == nullptr) return UnknownCommand(word, group_);
  }
  return absl::OkStatus();
}

// Reads the command's flags, its words, and the command line that it starts.
absl::Status Arguments::ReadRest(std::vector<std::string> left) {
  if (command_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(Read(&left, command_->rest_without_dashes));
  const bool bare = command_->rest_without_dashes && !left.empty() && left[0] != "--";
  const auto end = bare ? left.begin() : std::find(left.begin(), left.end(), "--");
  words_.assign(left.begin(), end);
  if (end == left.end()) return absl::OkStatus();
  if (!command_->rest) return NothingToStart();
  has_rest_ = true;
  rest_is_bare_ = bare;
  rest_.assign(bare ? end : end + 1, left.end());
  return absl::OkStatus();
}

absl::StatusOr<Arguments> Arguments::Parse(const std::vector<std::string>& line) {
  Arguments result;
  std::vector<std::string> left = line;
  RETURN_IF_ERROR(result.ReadCommand(&left));
  RETURN_IF_ERROR(result.ReadRest(std::move(left)));
  if (result.help_ || (result.command_ == nullptr && !result.Has("version"))) {
    const std::string page =
        result.command_ == nullptr ? result.group_ : std::string(result.command_->name);
    result.command_ = FindCommand("help");
    result.words_ = page.empty() ? std::vector<std::string>() : std::vector{page};
    result.rest_.clear();
    result.has_rest_ = false;
    return result;
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

std::vector<std::string> Arguments::Listed(std::string_view flag) const {
  std::vector<std::string> words;
  for (const std::string& list : All(flag)) {
    for (const auto word : absl::StrSplit(list, ',', absl::SkipEmpty())) words.emplace_back(word);
  }
  return words;
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
