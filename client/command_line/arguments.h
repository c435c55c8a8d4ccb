// A parsed command line: which command, its flags, words, and what follows `--`. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/command_line/command.h"
#include "client/command_line/flag_reader.h"

namespace muster::client {

class Arguments {
 public:
  // `line` is argv without the program. Errors: JC1001 to JC1004, with the nearest name. A line
  // that asks for help parses to the help command with the command's name as words, one that asks
  // for the version to `version --client`.
  static absl::StatusOr<Arguments> Parse(const std::vector<std::string>& line);

  const Command& command() const { return *command_; }
  bool Has(std::string_view flag) const { return flags_.find(flag) != flags_.end(); }
  // The last value given, or `otherwise`.
  std::string Get(std::string_view flag, std::string_view otherwise = {}) const;
  std::vector<std::string> All(std::string_view flag) const;
  // For a flag that takes lists: the words of all its values, "a,b" as two.
  std::vector<std::string> Listed(std::string_view flag) const;
  absl::StatusOr<int64_t> Number(std::string_view flag, int64_t least, int64_t most,
                                 int64_t otherwise) const;
  absl::StatusOr<int64_t> DurationMs(std::string_view flag, int64_t otherwise) const;

  const std::vector<std::string>& words() const { return words_; }
  const std::vector<std::string>& rest() const { return rest_; }
  bool has_rest() const { return has_rest_; }
  // The command line to start began without a "--".
  bool rest_is_bare() const { return rest_is_bare_; }
  // For a command whose number of words depends on the first. JC1004.
  absl::Status CheckMost(int most) const;

 private:
  absl::Status ReadCommand(std::vector<std::string>* left);
  absl::Status ReadRest(std::vector<std::string> left);
  absl::Status Read(std::vector<std::string>* left, bool first_word_ends);
  absl::Status CheckWords() const;
  std::string UsageLine() const;

  const Command* command_ = nullptr;
  std::string group_;  // "ckpt" of "ckpt ls"
  bool help_ = false;
  FlagValues flags_;
  std::vector<std::string> words_;
  std::vector<std::string> rest_;
  bool has_rest_ = false;
  bool rest_is_bare_ = false;
};

}  // namespace muster::client
