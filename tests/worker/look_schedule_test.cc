// Which ranks are looked at from outside, and when; and that a helper program cannot hold up the
// worker.
#include "worker/inspection/look_schedule.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "worker/base/bounded_command.h"

namespace muster::worker {
namespace {

constexpr AttemptKey kKey{7, 0};

class LookScheduleTest : public testing::Test {
 protected:
  LookScheduleTest() {
    for (uint32_t rank = 0; rank < 3; ++rank) looks_.RankStarted(kKey, rank, 100 + rank, 5);
  }
  std::vector<uint32_t> started_;
  LookSchedule looks_{
      [this](const AttemptKey&, const LookTarget& target) { started_.push_back(target.rank); }};
};

TEST_F(LookScheduleTest, LooksAtSilentRanksAtOnceAndAtSpeakersThatDoNotAnswerLater) {
  looks_.Ask(kKey, 9, "asked", {0, 1}, 1'000);
  EXPECT_EQ(started_, std::vector<uint32_t>{2});
  looks_.Answered(kKey, 0, 9);
  looks_.OnTime(*looks_.NextMs() - 1);
  EXPECT_EQ(started_.size(), 1u);
  looks_.OnTime(*looks_.NextMs());
  EXPECT_EQ(started_, (std::vector<uint32_t>{2, 1}));
  EXPECT_FALSE(looks_.NextMs().has_value());
}

TEST_F(LookScheduleTest, OneLookAnswersAllQuestionsThatCameMeanwhile) {
  looks_.Ask(kKey, 9, "asked", {0, 1}, 1'000);
  looks_.Ask(kKey, 10, "asked", {0, 1}, 1'001);
  EXPECT_EQ(started_.size(), 1u);
  EXPECT_EQ(looks_.Finished(kKey, 2), (std::vector<uint64_t>{9, 10}));
  EXPECT_TRUE(looks_.Finished(kKey, 2).empty());
}

TEST_F(LookScheduleTest, NeitherTheWorkersOwnQuestionsNorUnknownProcessesStartALook) {
  looks_.Ask(kKey, 0, "stopping", {}, 1'000);
  looks_.RankStarted({8, 0}, 0, 100, 0);  // it has ended: its number may be another's
  looks_.Ask({8, 0}, 9, "asked", {}, 1'000);
  looks_.Remove(kKey);
  looks_.Ask(kKey, 9, "asked", {}, 1'000);
  EXPECT_TRUE(started_.empty());
}

TEST(BoundedCommandTest, KillsWhatHangsAndKeepsNoMoreThanItsBytes) {
  const CommandOutput hung =
      RunBounded({"/bin/sh", "-c", "echo said; exec sleep 1000"}, 100, 1'000);
  EXPECT_EQ(hung.out, "said\n");
  EXPECT_EQ(hung.problem, "it took longer than 0.1 s");
  const CommandOutput loud =
      RunBounded({"/bin/sh", "-c", "yes | head -c 100000; echo e >&2; exit 3"}, 10'000, 1'000);
  EXPECT_EQ(loud.out.size(), 1'000u);
  EXPECT_EQ(loud.err, "e\n");
  EXPECT_EQ(loud.problem, "it exited with 3");
  EXPECT_EQ(RunBounded({"/nowhere/x"}, 100, 10).problem,
            "it cannot be started: No such file or directory");
}

// The command waits for a file, so that it stands still as well.
TEST(BoundedCommandTest, TheTimeInWhichTheNodeStoodStillIsNotTheCommands) {
  char go[] = "/tmp/bounded-XXXXXX";
  close(mkstemp(go));
  const std::string started = std::string(go) + ".started";
  const std::string until_gone =
      ": > " + started + "; while [ -e " + go + " ]; do sleep 0.01; done";
  const pid_t caller = fork();
  if (caller == 0) _exit(RunBounded({"/bin/sh", "-c", until_gone}, 1'500, 10).exit_code);
  for (int i = 0; i < 2'000 && access(started.c_str(), F_OK) != 0; ++i) poll(nullptr, 0, 5);
  kill(caller, SIGSTOP);
  poll(nullptr, 0, 1'600);  // for longer than the command has
  unlink(go);
  unlink(started.c_str());
  kill(caller, SIGCONT);
  int status = -1;
  ASSERT_EQ(waitpid(caller, &status, 0), caller);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace muster::worker
