// How a child begins (common/kernel/process_start.h): with exactly the descriptors, variables, directory and
// signals that it is given.
#include "common/kernel/process_start.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "common/text/strings.h"

namespace muster::common {
namespace {

struct Ended {
  std::string text;  // of its output
  pid_t pid = 0;
};

// What a shell's command prints, started with this setup.
Ended RunShell(const std::string& command, ChildSetup setup) {
  Pipe output;
  EXPECT_TRUE(output.Open());
  setup.program = setup.is_searched ? "sh" : "/bin/sh";
  setup.argv = {"sh", "-c", command};
  setup.fds.push_back({.as = STDOUT_FILENO, .ours = output.to.get()});
  Ended ended{.pid = StartProcess(setup)};
  output.to.Reset();
  char buffer[4096];
  ssize_t count = 0;
  while ((count = read(output.from.get(), buffer, sizeof buffer)) > 0)
    ended.text.append(buffer, static_cast<size_t>(count));
  EXPECT_EQ(waitpid(ended.pid, nullptr, 0), ended.pid);
  return ended;
}

TEST(ProcessStartTest, TheEnvironmentIsOursOrTheOneGiven) {
  setenv("MUSTER_TEST_OURS", "yes", 1);
  EXPECT_EQ(RunShell("echo $MUSTER_TEST_OURS", {}).text, "yes\n");
  EXPECT_EQ(RunShell("echo $MUSTER_TEST_OURS$A", {.env = std::vector<std::string>{"A=b"}}).text,
            "b\n");
  unsetenv("MUSTER_TEST_OURS");
}

TEST(ProcessStartTest, ItBeginsInItsDirectoryWithoutInput) {
  EXPECT_EQ(RunShell("pwd; cat", {.directory = "/usr", .fds = {NoInput()}}).text, "/usr\n");
}

TEST(ProcessStartTest, ADescriptorIsGivenAlsoWhereItsNumberIsThatOfAnother) {
  Pipe first, second;
  ASSERT_TRUE(first.Open() && second.Open());
  ASSERT_EQ(write(first.to.get(), "1", 1), 1);
  ASSERT_EQ(write(second.to.get(), "2", 1), 1);
  // Each gets the other's number.
  const int low = first.from.get(), high = second.from.get();
  ASSERT_LT(high, 10) << "the test needs numbers that a shell can name";
  const std::string read_both =
      "head -c 1 <&" + std::to_string(low) + "; head -c 1 <&" + std::to_string(high);
  EXPECT_EQ(
      RunShell(read_both, {.fds = {{.as = low, .ours = high}, {.as = high, .ours = low}}}).text,
      "21");
}

TEST(ProcessStartTest, TheRestIsClosedAboveTheHighestGiven) {
  const UniqueFd inherited(open("/dev/null", O_RDONLY));
  const UniqueFd high(fcntl(inherited.get(), F_DUPFD, 20));
  const std::string has = "[ -e /proc/$$/fd/" + std::to_string(high.get()) + " ] && echo yes";
  EXPECT_EQ(RunShell(has, {}).text, "yes\n");
  EXPECT_EQ(RunShell(has, {.closes_rest = true}).text, "");
}

TEST(ProcessStartTest, AFileIsOpenedAndGivenTwice) {
  const std::string path = testing::TempDir() + "process_start_" + std::to_string(getpid());
  const ChildSetup setup{
      .fds = {{.as = STDERR_FILENO, .file = path, .flags = O_WRONLY | O_CREAT | O_APPEND},
              {.as = 5, .same_as = STDERR_FILENO}}};
  RunShell("echo a >&2; echo b >&5", setup);
  EXPECT_EQ(RunShell("cat " + path, {}).text, "a\nb\n");
  EXPECT_EQ(RunShell("stat -c %a " + path, {}).text, "600\n");
  unlink(path.c_str());
}

TEST(ProcessStartTest, ItLeadsASessionOrAGroupAndNoSignalIsIgnoredOrBlocked) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto pipe_before = signal(SIGPIPE, SIG_IGN);
  // Those above are the C library's own.
  constexpr uint64_t kOfPrograms = 0x7FFF'FFFF;
  for (const char* which : {"SigBlk", "SigIgn"}) {
    const std::string line = StrCat("grep ", which, " /proc/$$/status | cut -f2");
    EXPECT_EQ(std::stoull(RunShell(line, {}).text, nullptr, 16) & kOfPrograms, 0u) << which;
  }
  signal(SIGPIPE, pipe_before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const std::string ids = "cut -d' ' -f5,6 /proc/$$/stat";
  const Ended session = RunShell(ids, {});
  EXPECT_EQ(session.text, std::to_string(session.pid) + " " + std::to_string(session.pid) + "\n");
  const Ended group = RunShell(ids, {.apart = ChildSetup::Apart::kGroup});
  EXPECT_EQ(group.text, std::to_string(group.pid) + " " + std::to_string(getsid(0)) + "\n");
}

TEST(ProcessStartTest, WhatIsNotThereIsAnErrno) {
  EXPECT_EQ(StartProcess({.program = "/no/such/program", .argv = {"x"}}), -ENOENT);
  EXPECT_EQ(StartProcess({.program = "sh", .argv = {"sh"}}), -ENOENT);
  EXPECT_EQ(RunShell("echo found", {.is_searched = true}).text, "found\n");
}

}  // namespace
}  // namespace muster::common
