// The command line parser: every bad line gets one error with a code and the nearest name.
#include "client/command_line/arguments.h"

#include <gtest/gtest.h>

#include "client/command_line/errors.h"
#include "common/problem.h"

namespace muster::client {
namespace {

using Line = std::vector<std::string>;

struct Wrong {
  Line line;
  std::string code;
  std::string says;
};

TEST(ArgumentsTest, EachWrongLineGetsItsCodeAndWhatWasMeant) {
  const Wrong kWrong[] = {
      {{"sumbit"}, "JC1001", "did you mean \"submit\""},
      {{"squeue"}, "JC1001", "did you mean \"ls\""},
      {{"scancel", "3"}, "JC1001", "did you mean \"cancel\""},
      {{"nodes", "list"}, "JC1001", "did you mean \"nodes ls\""},
      {{"sstat"}, "JC1001", "did you mean \"top\""},
      {{"atach", "3"}, "JC1001", "did you mean \"attach\""},
      {{"ckpt", "pin"}, "JC1001", "jobctl has no command \"ckpt pin\""},
      {{"ls", "--colums", "a"}, "JC1002", "did you mean \"--columns\""},
      {{"run", "--nproc-per-node", "2", "--", "x"}, "JC1002", "did you mean \"-n\""},
      {{"run", "-np", "2", "--", "x"}, "JC1002", "did you mean \"-n\""},
      {{"run", "--max-restarts=3", "--", "x"}, "JC1002", "did you mean \"--restarts\""},
      {{"run", "--container", "x"}, "JC1002", "did you mean \"--image\""},
      {{"run", "--shm-size", "8G", "--", "x"}, "JC1002", "this is a key of the job file"},
      {{"run", "--sync=", "--", "x"}, "JC1004", "--sync= has no value"},
      {{"run", "--no-sync=x", "--", "x"}, "JC1004", "--no-sync takes no value"},
      {{"run", "--virtual-local-rank", "--", "x"}, "JC1002", "this is a key of the job file"},
      {{"run", "--mem", "4G", "--", "x"}, "JC1002", "memory is limited per rank"},
      {{"submit", "--mem-per-gpu=4G", "x"}, "JC1002", "memory is limited per rank"},
      {{"submit", "--time-limit", "1h", "x"}, "JC1002", "did you mean \"--time\""},
      {{"run", "--cpus-per-task", "4", "--", "x"}, "JC1002", "--cpus"},
      {{"submit", "--partition", "a", "x"}, "JC1002", "there is one queue"},
      {{"-o", "json", "ls"}, "JC1002", "jobctl has no global flag -o"},
      {{"wait", "--time", "1h", "x"}, "JC1002", "did you mean \"--timeout\""},
      {{"ls", "--secret", "x"}, "JC1002", "jobctl ls has no flag --secret"},
      {{"ls", "-o", "xml"}, "JC1004", "takes table|wide|json"},
      {{"ls", "--watch=yes"}, "JC1004", "takes no value"},
      {{"run", "-n"}, "JC1004", "-n needs a value (N)"},
      {{"run", "--processes"}, "JC1004", "--processes needs a value (N)"},
      {{"ls", "-qo"}, "JC1004", "-o needs a value (FORMAT)"},
      {{"ls", "-qx"}, "JC1002", "jobctl ls has no flag -x"},
      {{"ls", "-5"}, "JC1002", "jobctl ls has no flag -5"},
      {{"show"}, "JC1004", "an argument is missing: jobctl show JOB"},
      {{"show", "a", "b"}, "JC1004", "\"b\" is one argument too many"},
      {{"run", "--"}, "JC1004", "nothing follows `--`"},
      {{"ls", "--", "x"}, "JC1004", "`--` is for commands that start something"},
  };
  for (const Wrong& wrong : kWrong) {
    const auto parsed = Arguments::Parse(wrong.line);
    ASSERT_FALSE(parsed.ok()) << wrong.line[0];
    const common::Problem parts = common::ProblemOf(parsed.status());
    EXPECT_EQ(parts.code, wrong.code) << parts.what;
    EXPECT_NE(parts.what.find(wrong.says), std::string::npos) << parts.what;
    EXPECT_FALSE(parts.fix.empty()) << parts.what;
    EXPECT_EQ(ExitCodeFor(parsed.status()), kExitUsage);
  }
}

TEST(ArgumentsTest, ValuesMayStandBesideBehindOrAfterTheFlag) {
  for (const Line& line :
       {Line{"run", "-n", "4", "--", "x"}, Line{"run", "-n4", "--", "x"},
        Line{"run", "--processes=4", "--", "x"}, Line{"run", "--processes", "4", "--", "x"}}) {
    const auto parsed = Arguments::Parse(line);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed->Number("processes", 1, 10, 1), 4);
    EXPECT_EQ(parsed->rest(), Line{"x"});
  }
}

TEST(ArgumentsTest, AnEmptyValueDoesNotTakeTheNextWord) {
  const auto run = Arguments::Parse({"run", "--name=", "--", "x"});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->All("name"), Line{""});
  EXPECT_EQ(run->rest(), Line{"x"});
  const auto rm = Arguments::Parse({"rm", "-c", "", "--context=", "digits"});
  ASSERT_TRUE(rm.ok()) << rm.status();
  EXPECT_EQ(rm->All("context"), (Line{"", ""}));
  EXPECT_EQ(rm->words(), Line{"digits"});
}

TEST(ArgumentsTest, AValueMayLookLikeAFlag) {
  const auto ls = Arguments::Parse({"ls", "--sort", "-created", "-o=json", "--columns", "--a="});
  ASSERT_TRUE(ls.ok()) << ls.status();
  EXPECT_EQ(ls->Get("sort"), "-created");
  EXPECT_EQ(ls->Get("output"), "json");
  EXPECT_EQ(ls->Get("columns"), "--a=");
  EXPECT_EQ(Arguments::Parse({"logs", "x", "--rank", "--"})->Get("rank"), "--");
}

TEST(ArgumentsTest, TheEqualsSignOfAnAttachedValueIsNoPartOfIt) {
  EXPECT_EQ(Arguments::Parse({"run", "-n=4", "x"})->Get("processes"), "4");
  EXPECT_EQ(Arguments::Parse({"ls", "-ao=json"})->Get("output"), "json");
  EXPECT_EQ(Arguments::Parse({"run", "-e", "=novalue", "x"})->Get("env"), "=novalue");
  EXPECT_EQ(Arguments::Parse({"run", "--env==novalue", "x"})->Get("env"), "=novalue");
}

TEST(ArgumentsTest, ARepeatedFlagKeepsEveryValueInOrder) {
  const auto run = Arguments::Parse({"-s", "a", "run", "-eA=1", "-s", "b", "-e", "B=[x,y]", "x"});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->All("env"), (Line{"A=1", "B=[x,y]"}));
  EXPECT_EQ(run->Get("server"), "b");
}

TEST(ArgumentsTest, HyphensAndUnderscoresAreAlike) {
  const auto parsed = Arguments::Parse({"ls", "--no_headers"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->Has("no-headers"));
}

TEST(ArgumentsTest, TheFirstBareWordOfRunBeginsTheCommand) {
  const auto parsed =
      Arguments::Parse({"run", "-n", "2", "python", "train.py", "-n", "7", "--", "x"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->Get("processes"), "2");
  EXPECT_EQ(parsed->rest(), (Line{"python", "train.py", "-n", "7", "--", "x"}));
}

TEST(ArgumentsTest, GlobalFlagsMayStandBeforeTheCommand) {
  const auto parsed = Arguments::Parse({"-s", "head:7700", "ls", "-aq"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->Get("server"), "head:7700");
  EXPECT_TRUE(parsed->Has("all"));
  EXPECT_TRUE(parsed->Has("quiet"));
}

TEST(ArgumentsTest, HelpOfACommandIsTheHelpCommand) {
  for (const Line& line : {Line{"run", "--help"}, Line{"run", "-h"}, Line{"--help", "run"}}) {
    const auto parsed = Arguments::Parse(line);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->command().name, "help");
    EXPECT_EQ(parsed->words(), Line{"run"});
  }
  EXPECT_EQ(Arguments::Parse({})->command().name, "help");
  EXPECT_EQ(Arguments::Parse({"ckpt"})->words(), Line{"ckpt"});
}

TEST(ArgumentsTest, WhatThereIsInPlaceOfAnAbsentFlagCanBeTyped) {
  const common::Problem parts =
      common::ProblemOf(Arguments::Parse({"run", "--virtual-local-rank", "--", "x"}).status());
  EXPECT_EQ(parts.fix, "jobctl submit --set virtual_local_rank=true -- COMMAND");
  EXPECT_TRUE(Arguments::Parse({"submit", "--set", "virtual_local_rank=true", "--", "train"}).ok());
}

TEST(ArgumentsTest, TheFixOfAWrongLineIsALineThatCanBeTyped) {
  const auto fix = [](const Line& line) {
    return common::ProblemOf(Arguments::Parse(line).status()).fix;
  };
  EXPECT_EQ(common::ProblemOf(Arguments::Parse({"submit", "python", "train.py"})->CheckMost(1)).fix,
            "a command stands behind `--`: jobctl submit -- python train.py");
  EXPECT_EQ(fix({"-o", "json", "ls"}), "put it after its command: jobctl ls -o");
  EXPECT_EQ(fix({"--watch", "ls"}), "put it after its command: jobctl ls --watch");
}

TEST(ArgumentsTest, ListsMayBeRepeatedAndHaveCommas) {
  const auto arguments = Arguments::Parse({"ls", "-l", "a=1,b", "--label=c,,", "-l", "a=1"});
  EXPECT_EQ(arguments->Listed("label"), (std::vector<std::string>{"a=1", "b", "c", "a=1"}));
  EXPECT_TRUE(arguments->Listed("state").empty());
  EXPECT_EQ(common::ProblemOf(Arguments::Parse({"down", "x"}).status()).what,
            "\"x\" is one argument too many: jobctl down");
}

TEST(ArgumentsTest, TheVersionMayBeAskedForWithOrWithoutACommand) {
  for (const Line& line : {Line{"--version"}, Line{"-V"}, Line{"show", "-V"}, Line{"-q", "-V"}}) {
    const auto parsed = Arguments::Parse(line);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->command().name, "version");
    EXPECT_TRUE(parsed->Has("client")) << "contacts no coordinator";
  }
  EXPECT_EQ(Arguments::Parse({"run", "--", "x", "-V"})->command().name, "run");
}

TEST(ArgumentsTest, HelpBehindTheDashesBelongsToTheTrainer) {
  const auto parsed = Arguments::Parse({"run", "--", "train", "--help"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->command().name, "run");
}

TEST(ArgumentsTest, NumbersOutOfRangeNameTheRange) {
  const auto parsed = Arguments::Parse({"run", "-n", "0", "--", "x"});
  const auto number = parsed->Number("processes", 1, 100'000, 1);
  ASSERT_FALSE(number.ok());
  EXPECT_EQ(common::ProblemOf(number.status()).what,
            "-n (--processes) takes a whole number from 1 to 100000, not \"0\"");
  for (const char* wrong : {"x", "1.5", "", "99999999999999999999"}) {
    EXPECT_FALSE(
        Arguments::Parse({"run", "-n", wrong, "--", "x"})->Number("processes", 1, 100, 1).ok())
        << wrong;
  }
}

TEST(ArgumentsTest, AGroupAloneOrWithFlagsLists) {
  const auto command = [](const std::vector<std::string>& line) {
    const auto parsed = Arguments::Parse(line);
    return parsed.ok() ? std::string(parsed->command().name)
                       : common::ProblemOf(parsed.status()).code;
  };
  EXPECT_EQ(command({"nodes"}), "nodes ls");
  EXPECT_EQ(command({"nodes", "-o", "json"}), "nodes ls");
  EXPECT_EQ(command({"config"}), "config view");
  EXPECT_EQ(command({"nodes", "--help"}), "help");
  EXPECT_EQ(command({"nodes", "-q", "drain", "node2"}), "nodes drain");
  EXPECT_EQ(command({"nodes", "drian", "node2"}), "JC1001");
  EXPECT_EQ(command({"ckpt"}), "help");  // its `ls` needs a job
}

}  // namespace
}  // namespace muster::client
