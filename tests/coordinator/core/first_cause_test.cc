// Which of several deaths was the first.
#include "coordinator/core/outcome/first_cause.h"

#include <gtest/gtest.h>

namespace muster::coordinator {
namespace {

constexpr char kGloo[] =
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[10.0.0.2]:31234";

v1::RankExit& AddExit(v1::Attempt& attempt, int part, uint32_t rank, int64_t at_us,
                      const std::string& says) {
  v1::RankExit& exit = *attempt.mutable_parts(part)->add_exits();
  exit.set_rank(rank);
  exit.set_node(attempt.parts(part).node());
  exit.set_exit_code(1);
  exit.set_since_start_us(at_us);
  exit.set_last_lines(says);
  return exit;
}

v1::Attempt TwoNodes() {
  v1::Attempt attempt;
  attempt.set_cause(v1::STOP_CAUSE_RANK_FAILED);
  attempt.add_parts()->set_node("a");
  attempt.add_parts()->set_node("b");
  return attempt;
}

v1::AttemptEnded Judged(const v1::Attempt& attempt) {
  v1::AttemptEnded ended;
  ended.set_cause(attempt.cause());
  ended.set_reason("rank 0 on a exited with code 1");
  JudgeFirstCause(attempt, ended);
  return ended;
}

TEST(FirstCauseTest, ThesePrintThatAPeerIsGone) {
  for (const char* line :
       {kGloo,
        "torch.distributed.DistBackendError: NCCL error: remote process exited or there was "
        "a network error",
        "[rank1]:[E ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout",
        "Broken pipe"}) {
    EXPECT_TRUE(ReadsAsPeerLoss(line)) << line;
  }
  for (const char* line : {"ValueError: boom", "CUDA out of memory", "closed the file", ""}) {
    EXPECT_FALSE(ReadsAsPeerLoss(line)) << line;
  }
}

TEST(FirstCauseTest, OnOneNodeItsMonotonicClockDecides) {
  v1::Attempt attempt = TwoNodes();
  *attempt.mutable_culprit() = AddExit(attempt, 0, 0, 400, kGloo);
  AddExit(attempt, 1, 3, 350, "KeyError: 'late'");
  AddExit(attempt, 1, 2, 300, "ValueError: boom");
  const v1::AttemptEnded ended = Judged(attempt);
  EXPECT_EQ(ended.reason(), "rank 2 on b exited with code 1: ValueError: boom; 1 other died of it");
  EXPECT_EQ(ended.culprit().rank(), 2);
}

TEST(FirstCauseTest, TheKernelsKillComesBeforeAnExitOnAnotherNode) {
  v1::Attempt attempt = TwoNodes();
  *attempt.mutable_culprit() = AddExit(attempt, 0, 0, 400, kGloo);
  AddExit(attempt, 0, 1, 410, "ValueError: cannot reach the others");
  AddExit(attempt, 1, 2, 420, "").set_out_of_memory(true);
  EXPECT_EQ(Judged(attempt).reason(),
            "rank 2 on b was killed by the kernel: out of memory; 1 other died of it");
}

TEST(FirstCauseTest, ALostNodeIsTheCauseIfAllOthersOnlyLostIt) {
  v1::Attempt attempt = TwoNodes();
  *attempt.mutable_culprit() = AddExit(attempt, 0, 0, 400, kGloo);
  AddExit(attempt, 0, 1, 410, kGloo);
  attempt.mutable_parts(1)->set_failure("b was rebooted");
  attempt.mutable_parts(1)->set_failure_cause(v1::STOP_CAUSE_NODE_LOST);
  const v1::AttemptEnded ended = Judged(attempt);
  EXPECT_EQ(ended.cause(), v1::STOP_CAUSE_NODE_LOST) << "its budget pays for the restart";
  EXPECT_EQ(ended.reason(), "b was rebooted; 2 others died of it");
}

TEST(FirstCauseTest, RanksThatWeStoppedDiedOfNothing) {
  v1::Attempt attempt = TwoNodes();
  *attempt.mutable_culprit() = AddExit(attempt, 0, 0, 400, "ValueError: boom");
  AddExit(attempt, 0, 1, 410, kGloo).set_stopped_by_us(true);
  EXPECT_EQ(Judged(attempt).reason(), "rank 0 on a exited with code 1");
}

TEST(FirstCauseTest, OtherCausesAreLeftAlone) {
  v1::Attempt attempt = TwoNodes();
  *attempt.mutable_culprit() = AddExit(attempt, 0, 0, 400, kGloo);
  AddExit(attempt, 1, 2, 420, "").set_out_of_memory(true);
  attempt.set_cause(v1::STOP_CAUSE_CANCELLED);
  EXPECT_EQ(Judged(attempt).reason(), "rank 0 on a exited with code 1");
}

}  // namespace
}  // namespace muster::coordinator
