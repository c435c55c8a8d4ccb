// The real worker, whose coordinators replace each other: ranks notice nothing.
#include <string>

#include "common/text/strings.h"
#include "tests/worker/daemon_fixture.h"

namespace muster::worker {
namespace {

class DaemonHeadsTest : public DaemonTest {
 protected:
  static constexpr int kLines = 1'500;

  // Takes at least 1.5 s.
  static v1::LaunchAttempt SlowLines() {
    return ShellLaunch(7, 0,
                       common::StrCat("i=0; while [ $i -lt ", kLines,
                                      " ]; do echo \"line $i\"; i=$((i+1)); "
                                      "[ $((i % 10)) = 0 ] && sleep 0.01; done; exit 0"),
                       1);
  }
  static std::string AllLines() {
    std::string text;
    for (int i = 0; i < kLines; ++i) text += common::StrCat("line ", i, "\n");
    return text;
  }
  bool RegistersAt(const std::string& address) {
    return coordinator_.Wait([&] {
      return !coordinator_.registered_at.empty() && coordinator_.registered_at.back() == address;
    });
  }
};

TEST_F(DaemonHeadsTest, RanksContinueAndNoByteIsLostWhenAnotherCoordinatorTakesOver) {
  const std::string first = coordinator_.endpoint();
  const std::string second = coordinator_.StartHead("unix:" + directory_ + "/d.sock");
  coordinator_.Lead(first);
  dialed_ = "unix:" + directory_ + "/none.sock," + first + "," + second;
  StartWorker();
  Launch(SlowLines());
  ASSERT_TRUE(coordinator_.Wait([&] { return Stdout(7, 0, 0).size() > 2'000; })) << WorkerLog();
  coordinator_.StopHead(first);
  ASSERT_TRUE(coordinator_.Wait([&] { return coordinator_.asked_in_vain[second] >= 4; }))
      << WorkerLog();
  coordinator_.Lead(second);
  ASSERT_TRUE(RegistersAt(second)) << WorkerLog();
  const v1::Register registration = coordinator_.registrations.back();
  ASSERT_EQ(registration.attempts_size(), 1);
  EXPECT_EQ(registration.attempts(0).phase(), v1::ATTEMPT_PHASE_RUNNING);
  ASSERT_TRUE(WaitDrained(7, 0)) << WorkerLog();
  EXPECT_EQ(Stdout(7, 0, 0), AllLines());
  ASSERT_EQ(Status(7, 0).exits_size(), 1);
  EXPECT_EQ(Status(7, 0).exits(0).exit_code(), 0);
  EXPECT_TRUE(coordinator_.complaints.empty());
}

TEST_F(DaemonHeadsTest, CoordinatorsThatALeaderNamedAreDialedAfterARestart) {
  const std::string first = coordinator_.StartHead("127.0.0.1:0");
  const std::string second = coordinator_.StartHead("127.0.0.1:0");
  coordinator_.Lead(first);
  coordinator_.heads = {first, second, "unix:/not/from/the/network", "no port"};
  dialed_ = first;
  StartWorker();
  Launch(ShellLaunch(7, 0, "sleep 600", 1));
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_RUNNING)) << WorkerLog();
  KillWorker(SIGKILL);
  coordinator_.StopHead(first);
  coordinator_.Lead(second);
  StartWorker();
  EXPECT_EQ(coordinator_.registered_at.back(), second);
  EXPECT_EQ(coordinator_.registrations.back().attempts_size(), 1);
  const std::string file = ReadAll(StateDir() + "/coordinators");
  EXPECT_EQ(file, "cluster=\nauthority=\nconfigured=" + first + "\nhead=" + first +
                      "\nhead=" + second + "\n");
}

TEST_F(DaemonHeadsTest, AWorkerWithOneAddressFollowsALeaderThatItWasToldOf) {
  const std::string first = coordinator_.StartHead("127.0.0.1:0");
  const std::string second = coordinator_.StartHead("127.0.0.1:0");
  coordinator_.Lead(first);
  coordinator_.heads = {first, second};
  dialed_ = first;
  StartWorker();
  coordinator_.StopHead(first);
  coordinator_.Lead(second);
  EXPECT_TRUE(RegistersAt(second)) << WorkerLog();
}

}  // namespace
}  // namespace muster::worker
