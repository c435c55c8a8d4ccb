// A daemon's own log (common/log.h): each test works on files of its own.
#include "common/log.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "gtest/gtest.h"

namespace muster::common {
namespace {

using Texts = std::vector<std::string>;

constexpr char kTime[] = "2026-11-22T12:58:09.123Z ";

// `line` without its time; all of it when it has none.
std::string Untimed(const std::string& line) {
  static const std::regex time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z )");
  return std::regex_search(line, time, std::regex_constants::match_continuous)
             ? line.substr(sizeof kTime - 1)
             : line;
}

class DaemonLog : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/muster-log-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    Open(LogLevel::kInfo);
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(directory_).ok()); }

  std::string Path() const { return directory_ + "/daemon.log"; }
  void Open(LogLevel least) { ASSERT_TRUE(OpenLog("muster-test", Path(), least).ok()); }
  std::string Text() const { return ReadFile(Path()).value(); }
  Texts Lines() const {
    Texts lines;
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(Text(), '\n', absl::SkipEmpty()))) {
      lines.push_back(Untimed(line));
    }
    return lines;
  }

  std::string directory_;
};

TEST_F(DaemonLog, ALineIsTheTimeTheLevelAndTheMessage) {
  LogInfo("worker started name=n1");
  EXPECT_EQ(Text().size(), sizeof kTime - 1 + sizeof "info worker started name=n1");
  EXPECT_EQ(Lines(), Texts{"info worker started name=n1"});
}

TEST_F(DaemonLog, LinesBelowTheLeastLevelAreLeftOut) {
  Log(LogLevel::kDebug, "a");
  LogInfo("b");
  LogWarning("c");
  LogError("d");
  EXPECT_EQ(Lines(), (Texts{"info b", "warning c", "error d"}));
  Open(LogLevel::kDebug);
  Log(LogLevel::kDebug, "e");
  Open(LogLevel::kError);
  LogWarning("f");
  EXPECT_EQ(Lines(), (Texts{"info b", "warning c", "error d", "debug e"}));
}

TEST_F(DaemonLog, WhatAJobNamesItselfIsNoFormat) {
  LogInfo("job={} {0} {:>99999} %v %s %");
  EXPECT_EQ(Lines(), (Texts{"info job={} {0} {:>99999} %v %s %"}));
}

TEST_F(DaemonLog, ControlCharactersCannotForgeALineOrReachATerminal) {
  LogInfo("job=a\n2026-01-01T00:00:00.000Z error forged \x1b[2J\xff");
  EXPECT_EQ(Lines(), (Texts{"info job=a\\x0a2026-01-01T00:00:00.000Z error forged \\x1b[2J\\xff"}));
}

TEST_F(DaemonLog, ALogIsContinuedAndOnlyItsOwnerReadsIt) {
  LogInfo("the first life");
  Open(LogLevel::kInfo);
  LogInfo("the second life");
  EXPECT_EQ(Lines(), (Texts{"info the first life", "info the second life"}));
  struct stat info {};
  ASSERT_EQ(stat(Path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(DaemonLog, ALogThatWasCutToNothingGoesOnAtItsStart) {
  LogInfo("before logrotate's copytruncate");
  ASSERT_EQ(truncate(Path().c_str(), 0), 0);
  LogInfo("after it");
  EXPECT_EQ(Lines(), (Texts{"info after it"}));
}

TEST_F(DaemonLog, ALogThatCannotBeOpenedIsNamedAndTheOldOneStays) {
  const absl::Status opened =
      OpenLog("muster-test", directory_ + "/absent/daemon.log", LogLevel::kInfo);
  EXPECT_EQ(opened.message(), StrCat("muster-test: cannot open log ", directory_,
                                     "/absent/daemon.log: No such file or directory"));
  LogInfo("still here");
  EXPECT_EQ(Lines(), (Texts{"info still here"}));
}

TEST_F(DaemonLog, LinesThatAFullDiskSwallowedAreCountedWhenThereIsRoom) {
  ASSERT_TRUE(OpenLog("muster-test", "/dev/full", LogLevel::kInfo).ok());
  LogInfo("lost");
  LogInfo("lost too");
  Open(LogLevel::kInfo);
  LogInfo("there is room");
  LogInfo("and more");
  EXPECT_EQ(Lines(), (Texts{"warning 2 lines of this log are lost: it could not be written",
                            "info there is room", "info and more"}));
}

TEST_F(DaemonLog, ALineThatAFullDiskCutIsEndedBeforeTheNext) {
  LogInfo("whole");
  signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit tight = old;
  tight.rlim_cur = Text().size() + 30;  // the time, and "info "
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  LogInfo("cut");
  LogInfo("lost");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  LogInfo("there is room");
  EXPECT_EQ(Lines(), (Texts{"info whole", "info ",
                            "warning 2 lines of this log are lost: it could not be written",
                            "info there is room"}));
}

TEST_F(DaemonLog, LinesOfSeveralThreadsNeverMix) {
  constexpr int kLines = 500;
  const std::string body(200, 'x');
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      for (int i = 0; i < kLines; ++i) LogInfo(body);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Lines(), Texts(4 * kLines, "info " + body));
}

}  // namespace
}  // namespace muster::common
