// The five ways in which jobs fail most, from records as the coordinator keeps them.
#include "client/diagnosis/first_cause.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "client/diagnosis/report.h"

namespace muster::client {
namespace {

testing::AssertionResult Has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in:\n" << text;
}

// A job of two ranks on two nodes whose only attempt has ended.
class FailedJob {
 public:
  FailedJob() {
    file_.now_ms = 1'700'000'100'000;
    file_.job.set_id(7);
    file_.job.set_name("calm-otter-7");
    file_.job.set_state(v1::JOB_STATE_FAILED);
    file_.job.set_submitted_ms(1'700'000'000'000);
    file_.job.set_finished_ms(1'700'000'060'000);
    v1::Attempt* attempt = file_.job.add_attempts();
    attempt->set_world_size(2);
    attempt->set_running_ms(1'700'000'001'000);
    attempt->set_cause(v1::STOP_CAUSE_RANK_FAILED);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      v1::NodePart* part = attempt->add_parts();
      part->set_node(rank == 0 ? "node1" : "node2");
      part->set_first_rank(rank);
      part->set_local_world_size(1);
      v1::NodeView& node = file_.nodes.emplace_back();
      node.mutable_record()->mutable_facts()->set_name(part->node());
      node.mutable_record()->mutable_facts()->set_memory_bytes(8ull << 30);
      node.mutable_record()->set_state(v1::NODE_STATE_ALIVE);
      node.mutable_record()->set_connected(true);
    }
  }
  v1::Attempt& attempt() { return *file_.job.mutable_attempts(0); }
  CaseFile& file() { return file_; }
  // Ended at this second of the job; the first call is the culprit.
  v1::RankExit& Dies(uint32_t rank, int64_t second) {
    v1::RankExit* exit = attempt().mutable_parts(static_cast<int>(rank))->add_exits();
    exit->set_rank(rank);
    exit->set_node(rank == 0 ? "node1" : "node2");
    exit->set_ended_ms(1'700'000'000'000 + second * 1'000);
    return *exit;
  }
  FirstCause Cause() {
    for (const v1::NodePart& part : attempt().parts()) {
      for (const v1::RankExit& exit : part.exits()) {
        if (!exit.stopped_by_us() && !attempt().has_culprit()) *attempt().mutable_culprit() = exit;
      }
    }
    return FindFirstCause(file_);
  }

 private:
  CaseFile file_;
};

std::string EvidenceOf(const FirstCause& cause) {
  std::string text;
  for (const std::string& line : cause.evidence) text += line + "\n";
  return text;
}

TEST(FirstCauseTest, ARankOutOfMemoryByTheKernelOrByItsOwnWords) {
  FailedJob job;
  v1::RankExit& dead = job.Dies(1, 50);
  dead.set_signal(SIGKILL);
  dead.set_out_of_memory(true);
  v1::RankExit& other = job.Dies(0, 51);
  other.set_exit_code(1);
  other.set_stopped_by_us(true);
  const FirstCause cause = job.Cause();
  EXPECT_EQ(cause.kind, "out_of_memory");
  EXPECT_EQ(cause.sentence, "rank 1 on node2 ran out of memory: the kernel killed it");
  EXPECT_TRUE(Has(EvidenceOf(cause), "node2 has 8192 MiB of memory"));
  EXPECT_TRUE(Has(cause.fixes[0], "jobctl rerun calm-otter-7  # after making the batch smaller"));

  FailedJob device;
  v1::RankExit& exit = device.Dies(0, 3);
  exit.set_exit_code(1);
  exit.set_last_lines(
      "Traceback\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n");
  EXPECT_EQ(device.Cause().sentence, "rank 0 on node1 ran out of device memory");
}

TEST(FirstCauseTest, ARankAtItsOwnMemoryLimitIsNotBlamedOnTheNode) {
  FailedJob job;
  v1::RankExit& dead = job.Dies(1, 50);
  dead.set_signal(SIGKILL);
  dead.set_out_of_memory(true);
  dead.set_memory_limit_bytes(512 << 20);
  const FirstCause cause = job.Cause();
  EXPECT_EQ(cause.kind, "memory_limit");
  EXPECT_EQ(cause.sentence,
            "rank 1 on node2 reached its memory limit of 512 MiB (--memory): the kernel killed it");
  EXPECT_FALSE(Has(EvidenceOf(cause), "node2 has"));
  EXPECT_TRUE(Has(cause.fixes[0], "a larger --memory than 512 MiB"));
}

TEST(FirstCauseTest, AFileThatOneNodeLacks) {
  FailedJob job;
  v1::RankExit& dead = job.Dies(1, 2);
  dead.set_exit_code(1);
  dead.set_last_lines(
      "Traceback\nFileNotFoundError: [Errno 2] No such file or directory: '/data/a b.bin'\n");
  const FirstCause cause = job.Cause();
  EXPECT_EQ(cause.kind, "missing_file");
  EXPECT_EQ(cause.sentence, "/data/a b.bin is missing on node2, where rank 1 needs it");
  EXPECT_TRUE(Has(EvidenceOf(cause), "no rank on node1 reported it missing"));
  EXPECT_TRUE(Has(cause.fixes[0], "scp node1:'/data/a b.bin' node2:'/data/a b.bin'"));

  FailedJob command;
  v1::RankExit& launch = command.Dies(1, 1);
  launch.set_launch_errno(2);
  launch.set_launch_error("node node2: cannot run /opt/train: No such file or directory");
  EXPECT_EQ(command.Cause().sentence, "/opt/train is missing on node2, where no rank could start");
}

TEST(FirstCauseTest, AWarningLongBeforeTheEndIsNotTheCause) {
  FailedJob job;
  v1::RankExit& dead = job.Dies(1, 2);
  dead.set_exit_code(1);
  std::string lines = "warning: cannot open /etc/tuning.json: No such file or directory\n";
  for (int i = 0; i < 10; ++i) lines += "frame\n";
  dead.set_last_lines(lines + "ValueError: bad shape\n");
  EXPECT_EQ(job.Cause().sentence, "rank 1 on node2 exited with code 1: ValueError: bad shape");
}

TEST(FirstCauseTest, WhatWasPrintedLongBeforeASignalIsNotItsCause) {
  FailedJob job;
  v1::RankExit& dead = job.Dies(1, 60);
  dead.set_signal(SIGSEGV);
  dead.set_last_lines("CUDA out of memory, trying a smaller batch\n\nepoch 7\n");
  dead.set_fresh_lines(1);
  EXPECT_EQ(job.Cause().kind, "crash");
  EXPECT_TRUE(Has(EvidenceOf(job.Cause()), "its last line: epoch 7"));
  dead.set_fresh_lines(0);
  EXPECT_FALSE(Has(EvidenceOf(job.Cause()), "its last line"));
  dead.set_signal(SIGKILL);
  EXPECT_EQ(job.Cause().kind, "signal_from_outside");
  dead.clear_fresh_lines();
  EXPECT_EQ(job.Cause().kind, "out_of_memory") << "an older worker does not tell the age of lines";
}

TEST(FirstCauseTest, ANodeThatDied) {
  FailedJob job;
  job.attempt().set_cause(v1::STOP_CAUSE_NODE_LOST);
  job.attempt().set_reason("node2 is lost: no contact for 30 s");
  job.attempt().mutable_parts(1)->set_failure_cause(v1::STOP_CAUSE_NODE_LOST);
  job.file().nodes[1].mutable_record()->set_state(v1::NODE_STATE_LOST);
  v1::RankExit& other = job.Dies(0, 40);
  other.set_signal(SIGTERM);
  other.set_stopped_by_us(true);
  const FirstCause cause = job.Cause();
  EXPECT_EQ(cause.kind, "node_lost");
  EXPECT_EQ(cause.sentence, "node node2 was lost: node2 is lost: no contact for 30 s");
  EXPECT_TRUE(Has(EvidenceOf(cause), "node2 is LOST now"));
  EXPECT_TRUE(Has(cause.fixes[0], "ssh node2 systemctl status muster-worker"));
}

TEST(FirstCauseTest, ASignalFromOutsideAndOneOfJobctl) {
  FailedJob job;
  v1::RankExit& dead = job.Dies(1, 20);
  dead.set_signal(SIGTERM);
  dead.set_last_lines("WARNING: error: 0.5\n");
  EXPECT_EQ(job.Cause().sentence,
            "rank 1 on node2 was killed by SIGTERM, which came from outside Muster: a person, "
            "another program, or the rank itself");
  EXPECT_TRUE(Has(job.Cause().fixes[0], "ssh node2 journalctl --since"));
  FailedJob shell;
  shell.Dies(0, 20).set_exit_code(128 + SIGTERM);
  EXPECT_EQ(shell.Cause().kind, "signal_from_outside");
  FailedJob ours;
  v1::RankExit& sent = ours.Dies(0, 20);
  sent.set_signal(SIGKILL);
  sent.set_signal_sent_by_us(true);
  EXPECT_TRUE(Has(ours.Cause().sentence, ", sent through Muster"));
}

std::string OutsideRecord(int rank, const std::string& doing, const std::string& function) {
  nlohmann::json record = {{"rank", rank},
                           {"collectives", nlohmann::json::array()},
                           {"outside", {{"pid", 12}, {"program", "python3"}, {"doing", doing}}}};
  nlohmann::json thread = {{"id", 12}, {"training", true}, {"place", function + " (train.py:3)"}};
  thread["frames"].push_back({{"function", function}, {"file", "train.py"}, {"line", 3}});
  record["threads"].push_back(thread);
  return record.dump();
}

TEST(FirstCauseTest, ARankThatHangsWhileTheOthersWaitInACollective) {
  FailedJob job;
  job.file().job.set_state(v1::JOB_STATE_RUNNING);
  job.file().job.set_finished_ms(0);
  job.attempt().set_world_size(3);
  job.file().last_metric_ms = job.file().now_ms - 90'000;
  for (int rank = 0; rank < 3; ++rank) {
    job.file().records.push_back(*ParseRankRecord(
        OutsideRecord(rank, "waits in futex", rank == 2 ? "load_batch" : "all_reduce")));
    job.file().records.back().host = "node1";
  }
  const FirstCause cause = FindFirstCause(job.file());
  EXPECT_EQ(cause.kind, "no_progress");
  EXPECT_EQ(cause.sentence,
            "ranks 0 and 1 wait in all_reduce, and rank 2 is not in it; rank 2 waits in futex, in "
            "load_batch (train.py:3)");
  EXPECT_TRUE(Has(EvidenceOf(cause), "no new metric for 1m 30s"));
  EXPECT_EQ(cause.fixes[0], "jobctl stack calm-otter-7 --full --rank 2");
}

TEST(FirstCauseTest, SeveralRanksInOnePlaceAreToldTogether) {
  FailedJob job;
  job.file().job.set_state(v1::JOB_STATE_RUNNING);
  for (int rank = 0; rank < 2; ++rank) {
    job.file().records.push_back(*ParseRankRecord(OutsideRecord(rank, "waits in futex", "step")));
  }
  EXPECT_EQ(FindFirstCause(job.file()).sentence,
            "it is running: seen from outside: ranks 0 and 1 wait in futex, in step (train.py:3)");
}

TEST(FirstCauseTest, AStoppedRankIsBlamedBeforeAnyPlace) {
  FailedJob job;
  job.file().job.set_state(v1::JOB_STATE_RUNNING);
  job.file().records = {*ParseRankRecord(OutsideRecord(0, "waits in futex", "all_reduce")),
                        *ParseRankRecord(OutsideRecord(1, "is stopped by a signal", "all_reduce"))};
  job.file().records[1].host = "node2";
  EXPECT_EQ(FindFirstCause(job.file()).sentence,
            "rank 1 is stopped by a signal on node2; fix: kill -CONT 12 there");
}

TEST(FirstCauseTest, TheReportIsOneScreenWhateverTheRanksSaid) {
  FailedJob job;
  v1::RankExit& dead = job.Dies(1, 20);
  dead.set_exit_code(3);
  dead.set_last_lines("\033[31mValueError: \xff bad\033[0m\n");
  for (int i = 0; i < 500; ++i)
    job.file().events.push_back({1'700'000'059'000, "", "event\nnumber"});
  FirstCause cause = job.Cause();
  EXPECT_EQ(cause.ranks, std::vector<uint32_t>{1});
  job.file().tails[1] = std::string(10'000, '\n') + std::string(5'000, 'x') + "\n\033]0;title\007";
  const std::string text = DiagnosisText(job.file(), cause);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40);
  EXPECT_FALSE(Has(text, "\033"));
  EXPECT_TRUE(Has(text, "first cause   rank 1 on node2 exited with code 3: "));
  EXPECT_TRUE(Has(text, "492 more: jobctl events calm-otter-7"));
  EXPECT_TRUE(Has(DiagnosisJson(job.file(), cause), "\"kind\": \"rank_failed\""));
}

}  // namespace
}  // namespace muster::client
