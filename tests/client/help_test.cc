// Help, completion and documents all come from the command table; these tests keep them in sync.
#include "client/help/help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/job_file/job_file.h"
#include "client/submit/job_flags.h"
#include "client/terminal/terminal.h"
#include "common/error_codes.h"
#include "common/problem.h"
#include "tests/support/paths.h"

namespace muster::client {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(HelpTest, EveryPageFitsEightyColumnsAndBeginsWithExamples) {
  for (const Command* command : Commands()) {
    if (command->name.starts_with("__")) continue;
    const std::string page = CommandHelp(*command);
    for (const std::string& line : LinesOf(page)) {
      EXPECT_LE(DisplayWidth(line), 80u) << command->name << ": " << line;
    }
    EXPECT_FALSE(command->examples.empty()) << command->name;
    EXPECT_LT(page.find("  jobctl "), page.find("Usage:")) << command->name;
  }
  for (const std::string& line :
       LinesOf(OverviewHelp() + ExitCodeHelp() + GroupHelp("nodes") + JobFileHelp())) {
    EXPECT_LE(DisplayWidth(line), 80u) << line;
  }
}

TEST(HelpTest, EveryCommandOfTheFolderIsFoundAndHasAPlaceOfItsOwn) {
  size_t defined = 0;
  for (const auto& file : std::filesystem::directory_iterator(TestSource("client/commands"))) {
    std::ifstream source(file.path());
    for (std::string line; std::getline(source, line);)
      defined += line.starts_with("const Command k") ? 1 : 0;
  }
  EXPECT_EQ(Commands().size(), defined);
  std::set<int> places;
  for (const Command* command : Commands()) {
    EXPECT_GT(command->place, places.empty() ? 0 : *places.rbegin()) << command->name;
    EXPECT_TRUE(places.insert(command->place).second) << command->name;
  }
}

TEST(HelpTest, FlagsOfACommandAreUniqueAndDoNotShadowByAccident) {
  const std::set<std::string_view> kMeant = {"timeout", "output", "context"};
  for (const Command* command : Commands()) {
    EXPECT_NE(command->run, nullptr) << command->name;
    std::set<std::string_view> names;
    std::set<char> letters;
    for (const Flag& flag : command->flags) {
      EXPECT_TRUE(names.insert(flag.name).second) << command->name << " --" << flag.name;
      EXPECT_TRUE(flag.letter == 0 || letters.insert(flag.letter).second)
          << command->name << " -" << flag.letter;
      EXPECT_FALSE(flag.help.empty()) << command->name << " --" << flag.name;
      for (const Flag& global : GlobalFlags()) {
        EXPECT_TRUE(flag.name != global.name || kMeant.count(flag.name) > 0)
            << command->name << " --" << flag.name;
      }
    }
  }
}

TEST(HelpTest, EveryExampleParses) {
  for (const Command* command : Commands()) {
    for (const std::string& line : LinesOf(std::string(command->examples))) {
      std::string text = line.substr(0, line.find('\t'));
      if (!text.starts_with("jobctl ") || text.find_first_of("'|&$>") != std::string::npos)
        continue;
      std::istringstream stream(text);
      std::vector<std::string> words;
      for (std::string word; stream >> word;) words.push_back(word);
      words.erase(words.begin());
      const auto parsed = Arguments::Parse(words);
      ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
      EXPECT_EQ(parsed->command().name, command->name) << text;
    }
  }
}

TEST(HelpTest, TheKeysOfAJobFileAreTextForATerminal) {
  const std::string page = JobFileHelp();
  for (const JobKey& key : JobKeys()) EXPECT_NE(page.find(key.path), std::string::npos) << key.path;
  EXPECT_EQ(page.find_first_of("|`"), page.find("`jobctl validate")) << page;
}

TEST(HelpTest, WhatCompletionOffersExists) {
  constexpr std::string_view kSubjects[] = {"job",  "node",   "context", "file",  "command",
                                            "code", "signal", "step",    "state", "device"};
  const auto check = [&](std::string_view list, std::string_view where) {
    while (!list.empty()) {
      const size_t end = std::min(list.find(' '), list.size());
      const std::string_view what = list.substr(0, end);
      EXPECT_TRUE(what.find('|') != what.npos || what == "last" ||
                  std::find(std::begin(kSubjects), std::end(kSubjects), what) !=
                      std::end(kSubjects))
          << where << ": " << what;
      list.remove_prefix(std::min(end + 1, list.size()));
    }
  };
  for (const Command* command : Commands()) {
    check(command->completes, command->name);
    for (const Flag* flag : FlagsOf(command)) check(flag->completes, flag->name);
  }
}

TEST(HelpTest, AFlagOfAJobHasTheSameWordsInEachCommandThatStartsOne) {
  const auto flag_of = [](std::string_view command, std::string_view name) -> const Flag* {
    for (const Flag& flag : FindCommand(command)->flags)
      if (flag.name == name) return &flag;
    return nullptr;
  };
  size_t shared = 0;
  for (const JobFlag& each : kJobFlags) {
    if ((each.commands & kStarting) != kStarting) continue;
    ++shared;
    for (const std::string_view command : {"run", "submit", "plan"}) {
      const Flag* flag = flag_of(command, each.flag.name);
      ASSERT_NE(flag, nullptr) << command << " --" << each.flag.name;
      EXPECT_EQ(flag->help, each.flag.help) << command << " --" << each.flag.name;
      EXPECT_EQ(flag->letter, each.flag.letter);
    }
  }
  EXPECT_GE(shared, 22u);
}

TEST(HelpTest, TheDocumentIsUpToDate) {
  std::ifstream file(TestSource("docs/jobctl.md"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), HelpDocument())
      << "regenerate it: build/bin/jobctl help --markdown > docs/jobctl.md";
}

TEST(HelpTest, CompletionAsksJobctlInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_NE(CompletionScript(shell).find("jobctl __complete -- "), std::string::npos) << shell;
  }
}

TEST(ErrorCodesTest, RowsAreSortedUniqueAndComplete) {
  std::string_view before;
  for (const common::ErrorCode& row : common::ErrorCodes()) {
    EXPECT_LT(before, row.code);
    EXPECT_TRUE(row.code.size() == 6 && row.code.starts_with("JC1")) << row.code;
    EXPECT_FALSE(row.title.empty() || row.explanation.empty() || row.fix.empty()) << row.code;
    EXPECT_EQ(common::FindErrorCode(row.code), &row);
    before = row.code;
  }
  EXPECT_NE(common::FindErrorCode("jc1201"), nullptr);
  EXPECT_NE(common::FindErrorCode("1201"), nullptr);
  EXPECT_EQ(common::FindErrorCode("JC9999"), nullptr);
}

TEST(ErrorsTest, AnErrorIsPrintedAndGraded) {
  const absl::Status error =
      common::MakeProblem(absl::StatusCode::kNotFound,
                          {.code = "JC1201", .what = "there is no job 7", .fix = "jobctl ls -a"});
  EXPECT_EQ(FormatError(error, false), "error: there is no job 7 [JC1201]\nfix:   jobctl ls -a\n");
  EXPECT_EQ(ExitCodeFor(error), kExitNotFound);
  const absl::Status list =
      Usage("JC1101", "f has 2 errors\nf:1:1: a\nf:2:1: b", "jobctl validate f");
  EXPECT_EQ(FormatError(list, false),
            "error: f has 2 errors [JC1101]\nf:1:1: a\nf:2:1: b\nfix:   jobctl validate f\n");
  EXPECT_EQ(ExitCodeFor(list), kExitRefused);
  EXPECT_EQ(ExitCodeFor(common::MakeProblem(absl::StatusCode::kAlreadyExists,
                                            {.code = "JC1205", .what = "used"})),
            kExitRefused);
  EXPECT_EQ(FormatError(common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                                            {.code = "JC1203", .what = "job x-1 is over"}),
                        false),
            "error: job x-1 is over [JC1203]\nfix:   `jobctl rerun JOB` starts a new job with the "
            "same spec.\n")
      << "the advice of its code";
  EXPECT_EQ(FormatError(common::MakeProblem(
                            absl::StatusCode::kInternal,
                            {.code = "JC1601", .what = "a/b", .why = "disk full", .fix = "df"}),
                        false),
            "error: a/b: disk full [JC1601]\nfix:   df\n");
  EXPECT_EQ(ExitCodeFor(common::MakeProblem(absl::StatusCode::kUnavailable,
                                            {.code = "JC1301", .what = "a", .fix = "b"})),
            kExitUnreachable);
  EXPECT_EQ(ExitCodeFor(common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                                            {.code = "JC1402", .what = "a", .fix = "b"})),
            kExitRefused);
  EXPECT_EQ(ExitCodeFor(absl::PermissionDeniedError("no")), kExitAuth);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("x")), kExitFailed);
  EXPECT_EQ(FormatError(absl::InternalError("[JC1201] prose; fix: x"), false),
            "error: [JC1201] prose; fix: x\n")
      << "prose is shown, not taken apart";
  EXPECT_EQ(FormatError(absl::InternalError("plain \033[2J"), false), "error: plain \\x1b[2J\n");
}

}  // namespace
}  // namespace muster::client
