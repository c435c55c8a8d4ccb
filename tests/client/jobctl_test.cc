// The real jobctl binary against prepared answers: what it prints where, and its exit codes.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "common/problem.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/jobctl_process.h"

namespace muster::client {
namespace {

v1::JobUpdate Update(v1::JobState state, int exit_code = 0, const std::string& reason = "") {
  v1::JobUpdate update;
  v1::JobRecord* record = update.mutable_record();
  record->set_id(3);
  record->set_name("calm-otter-3");
  record->set_state(state);
  record->set_exit_code(exit_code);
  record->set_reason(reason);
  record->set_first_running_ms(1000);
  if (state >= v1::JOB_STATE_SUCCEEDED) record->set_finished_ms(42'000);
  v1::Attempt* attempt = record->add_attempts();
  attempt->set_world_size(2);
  attempt->add_parts()->set_node("node1");
  return update;
}

v1::LogRecord Log(uint32_t rank, const std::string& data,
                  v1::LogStream stream = v1::LOG_STREAM_STDOUT) {
  v1::LogRecord record;
  record.set_node("node1");
  record.set_rank(rank);
  record.set_stream(stream);
  record.set_data(data);
  return record;
}

TEST(JobctlRunTest, ShowsLayoutPrefixedLinesAndVerdictAndReturnsZero) {
  FakeCoordinator fake;
  fake.updates = {Update(v1::JOB_STATE_RUNNING), Update(v1::JOB_STATE_SUCCEEDED)};
  fake.logs = {Log(0, "step 1\n"), Log(1, "warn\n", v1::LOG_STREAM_STDERR)};
  const Ended ended = Jobctl(fake, {"run", "-n", "2", "-e", "A=1", "--", "train", "x"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "[node1:0] step 1\n");
  EXPECT_NE(ended.err.find("calm-otter-3  2 ranks on 1 node\n"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("[node1:1] warn\n"), std::string::npos) << ended.err;
  EXPECT_TRUE(ended.err.ends_with("✓ succeeded in 41s\n")) << ended.err;
  const v1::JobSpec spec = fake.last_submit().spec();
  EXPECT_EQ(spec.shape().processes(), 2u);
  EXPECT_EQ(spec.command(1), "x");
  EXPECT_EQ(spec.env().at("A"), "1");
  EXPECT_EQ(spec.env().at("SECRET_TOKEN"), "abc");
  EXPECT_EQ(spec.workdir()[0], '/');
  EXPECT_FALSE(fake.last_submit().idempotency_key().empty());
}

TEST(JobctlRunTest, ReturnsTheCulpritsCodeAndSaysWhy) {
  FakeCoordinator fake;
  fake.updates = {Update(v1::JOB_STATE_RUNNING),
                  Update(v1::JOB_STATE_FAILED, 7, "rank 1 on node1 exited with code 7")};
  const Ended ended = Jobctl(fake, {"run", "-n", "2", "--", "train"});
  EXPECT_EQ(ended.code, 7);
  EXPECT_TRUE(ended.err.ends_with("✗ failed after 41s: rank 1 on node1 exited with code 7\n"))
      << ended.err;
}

TEST(JobctlRunTest, CtrlCCancelsTheJobAndASecondOneKillsIt) {
  FakeCoordinator fake;
  fake.updates = {Update(v1::JOB_STATE_RUNNING)};
  fake.wait_for_cancel = true;
  Process process(fake.endpoint(), {"run", "--", "train"});
  ASSERT_TRUE(process.ReadUntil("2 ranks on 1 node"));
  process.Signal(SIGINT);
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_NE(ended.err.find("stopping calm-otter-3 (grace 30s; Ctrl-C again kills it)"),
            std::string::npos)
      << ended.err;
  ASSERT_EQ(fake.cancels().size(), 1u);
  EXPECT_EQ(fake.cancels()[0].jobs(0), "calm-otter-3");
  EXPECT_FALSE(fake.cancels()[0].has_grace());
}

TEST(JobctlRunTest, AStreamThatEndsEarlyIsAnErrorNotASuccess) {
  FakeCoordinator fake;
  fake.updates = {Update(v1::JOB_STATE_RUNNING)};
  const Ended ended = Jobctl(fake, {"run", "--", "train"});
  EXPECT_EQ(ended.code, 5) << ended.err;
  EXPECT_NE(ended.err.find("[JC1307]"), std::string::npos) << ended.err;
}

TEST(JobctlRunTest, ATorchrunLineIsTakenApart) {
  FakeCoordinator fake;
  fake.updates = {Update(v1::JOB_STATE_SUCCEEDED)};
  const Ended ended = Jobctl(
      fake, {"run", "--", "torchrun", "--nproc_per_node=4", "--master-port=1", "t.py", "-n", "9"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("torchrun: the coordinator decides instead of --master-port\n"),
            std::string::npos);
  const v1::JobSpec spec = fake.last_submit().spec();
  EXPECT_EQ(spec.shape().per_node(), 4u);
  EXPECT_EQ(spec.command(spec.command_size() - 1), "9");
  EXPECT_EQ(spec.command(1), "-u");
}

TEST(JobctlSubmitTest, PrintsTheNameAloneForScripts) {
  FakeCoordinator fake;
  const Ended name =
      Jobctl(fake, {"submit", "-o", "name", "--idempotency-key", "k1", "--", "train"});
  EXPECT_EQ(name.out, "calm-otter-3\n");
  EXPECT_EQ(fake.last_submit().idempotency_key(), "k1");
  const Ended text = Jobctl(fake, {"submit", "--", "train"});
  EXPECT_EQ(text.out, "calm-otter-3 submitted (queue #2)\n");
  EXPECT_NE(text.err.find("next: jobctl logs -f calm-otter-3"), std::string::npos);
}

TEST(JobctlSubmitTest, LimitsAreNotGivenToACoordinatorThatWouldIgnoreThem) {
  FakeCoordinator older;
  for (const char* command : {"run", "submit", "plan"}) {
    const Ended ended = Jobctl(older, {command, "--memory", "64MiB", "--", "train"});
    EXPECT_EQ(ended.code, 6) << command << ended.err;
    EXPECT_NE(ended.err.find("would ignore --cpus and --memory [JC1413]"), std::string::npos)
        << ended.err;
  }
  EXPECT_FALSE(older.last_submit().has_spec());
}

TEST(JobctlSubmitTest, ARefusalOfTheCoordinatorIsExitSixWithItsFix) {
  FakeCoordinator fake;
  fake.submit_error = common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                                          {.code = "JC1402",
                                           .what = "needs 8 gpu, the largest node set has 2",
                                           .fix = "-n 2, or --queue-anyway"});
  const Ended ended = Jobctl(fake, {"submit", "-n", "8", "--", "train"});
  EXPECT_EQ(ended.code, 6);
  EXPECT_EQ(
      ended.err,
      "error: needs 8 gpu, the largest node set has 2 [JC1402]\nfix:   -n 2, or --queue-anyway\n");
}

TEST(JobctlSubmitTest, AnErrorKeepsItsCodeAndItsFixHoweverLongItsCauseIs) {
  for (const char* piece : {"x", "ä", "\n", "%", "\xff"}) {
    std::string why;
    for (int i = 0; i < 1'000'000; ++i) why += piece;
    FakeCoordinator fake;
    fake.submit_error = common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1402", .what = "it never fits", .why = why, .fix = "ask for less"});
    const Ended ended = Jobctl(fake, {"submit", "-n", "8", "--", "train"});
    EXPECT_EQ(ended.code, 6);
    EXPECT_EQ(ended.err.find("error: it never fits: "), 0u) << ended.err.substr(0, 200);
    EXPECT_NE(ended.err.find(" [JC1402]"), std::string::npos);
    EXPECT_NE(ended.err.find("…"), std::string::npos);
    EXPECT_TRUE(ended.err.ends_with("\nfix:   ask for less\n")) << ended.err;
    EXPECT_LT(ended.err.size(), 8'000u);
  }
}

TEST(JobctlSubmitTest, AnOlderCoordinatorsErrorIsShownAsItIs) {
  FakeCoordinator fake;
  fake.is_older = true;
  fake.submit_error =
      common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                          {.code = "JC1402", .what = "it never fits", .fix = "ask for less"});
  const Ended ended = Jobctl(fake, {"submit", "-n", "8", "--", "train"});
  EXPECT_EQ(ended.err, "error: [JC1402] it never fits; fix: ask for less\n");
  EXPECT_EQ(ended.code, 1);
}

TEST(JobctlSubmitTest, ABadJobFileIsRefusedBeforeAnythingIsSent) {
  FakeCoordinator fake;
  const std::string path = fake.directory() + "/job.yaml";
  std::ofstream(path) << "command: [train]\nretsarts: 1\n";
  const Ended ended = Jobctl(fake, {"submit", path});
  unlink(path.c_str());
  EXPECT_EQ(ended.code, 6);
  EXPECT_NE(ended.err.find(":2:1: unknown key \"retsarts\"; did you mean \"restarts\"?"),
            std::string::npos)
      << ended.err;
  EXPECT_TRUE(fake.last_submit().idempotency_key().empty());
}

TEST(JobctlWaitTest, CodesTellSuccessFailureAndTimeApart) {
  FakeCoordinator fake;
  fake.record = Update(v1::JOB_STATE_SUCCEEDED).record();
  EXPECT_EQ(Jobctl(fake, {"wait", "3"}).code, 0);
  const Ended short_of = Jobctl(fake, {"wait", "3", "--for", "step=5"});
  EXPECT_EQ(short_of.code, 1);
  EXPECT_NE(short_of.err.find("[JC1207]"), std::string::npos) << short_of.err;
  fake.record = Update(v1::JOB_STATE_FAILED, 7, "rank 11: OOM").record();
  const Ended failed = Jobctl(fake, {"wait", "3"});
  EXPECT_EQ(failed.code, 100);
  EXPECT_EQ(failed.out, "calm-otter-3 FAILED (rank 11: OOM)\n");
  EXPECT_EQ(Jobctl(fake, {"wait", "3", "--propagate"}).code, 7);
  fake.record = Update(v1::JOB_STATE_RUNNING).record();
  const Ended late = Jobctl(fake, {"wait", "3", "--timeout", "100ms"});
  EXPECT_EQ(late.code, 101);
  EXPECT_NE(late.err.find("[JC1206]"), std::string::npos) << late.err;
  EXPECT_EQ(Jobctl(fake, {"wait", "3", "--for", "running"}).code, 0);
}

TEST(JobctlTest, SeveralJobsAreCancelledInOneRequestAndTheWorstCodeCounts) {
  FakeCoordinator fake;
  const Ended ended = Jobctl(fake, {"cancel", "a", "gone", "--grace", "5s"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_EQ(ended.out, "a is being cancelled\n");
  EXPECT_EQ(ended.err, "error: there is no job gone [JC1201]\nfix:   jobctl ls -a\n");
  ASSERT_EQ(fake.cancels().size(), 1u);
  EXPECT_EQ(fake.cancels()[0].grace_ms(), 5000u);
}

TEST(JobctlTest, ListsForPipesAndPrograms) {
  FakeCoordinator fake;
  v1::JobSummary* job = fake.jobs.add_jobs();
  job->set_id(3);
  job->set_name("calm-otter-3");
  job->set_state(v1::JOB_STATE_RUNNING);
  job->set_ranks(2);
  job->set_device_kind("cpu");
  job->set_step(-1);
  job->set_checkpoint_step(-1);
  EXPECT_EQ(Jobctl(fake, {"ls", "--columns", "job,state,devices,step"}).out,
            "JOB\tSTATE\tDEVICES\tSTEP\ncalm-otter-3\tRUNNING\t2 cpu\t\n");
  EXPECT_EQ(Jobctl(fake, {"ls", "-o", "name"}).out, "calm-otter-3\n");
  EXPECT_EQ(Jobctl(fake, {"ls", "--state", "runing"}).code, 2);
}

TEST(JobctlTest, AnUnreachableCoordinatorIsExitFiveAndNeverAPrivateRun) {
  const Ended ended = Process("unix:/nonexistent/c.sock", {"run", "--", "true"}).End();
  EXPECT_EQ(ended.code, 5);
  EXPECT_NE(ended.err.find("error: the coordinator at unix:/nonexistent/c.sock does not answer"),
            std::string::npos)
      << ended.err;
  EXPECT_NE(ended.err.find("[JC1301]"), std::string::npos);
}

TEST(JobctlTest, AnotherProtocolIsRefusedWithBothVersions) {
  FakeCoordinator fake;
  fake.protocol = 0;
  const Ended ended = Jobctl(fake, {"ls"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("[JC1302]"), std::string::npos) << ended.err;
}

TEST(JobctlTest, ACoordinatorsNamesDoNotSteerWhatPullWrites) {
  FakeCoordinator fake;
  fake.record = Update(v1::JOB_STATE_SUCCEEDED).record();
  v1::Checkpoint* checkpoint = fake.record.add_checkpoints();
  checkpoint->set_state(v1::CHECKPOINT_STATE_COMMITTED);
  checkpoint->set_step(5);
  checkpoint->add_files()->set_path("../../outside");
  checkpoint->mutable_files(0)->set_sha256(std::string(64, 'a'));
  const std::string to = fake.directory() + "/to";
  EXPECT_NE(Jobctl(fake, {"ckpt", "pull", "3", "--to", to}).err.find("[JC1504]"),
            std::string::npos);
  checkpoint->mutable_files(0)->set_path("fine");
  checkpoint->mutable_files(0)->set_sha256("no hash");
  EXPECT_NE(Jobctl(fake, {"ckpt", "pull", "3", "--to", to}).err.find("[JC1504]"),
            std::string::npos);
  fake.record.set_name("../steered-3");
  const Ended ended = Jobctl(fake, {"ckpt", "pull", "3"});
  EXPECT_NE(ended.err.find("[JC1504]"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("--to DIR"), std::string::npos) << ended.err;
  EXPECT_NE(access("../steered-3", F_OK), 0);
}

TEST(JobctlTest, ForeignTextReachesNoTerminalUnfiltered) {
  FakeCoordinator fake;
  const std::string evil = "a\033]0;x\007\u202E\xc2\x9b";
  fake.record = Update(v1::JOB_STATE_RUNNING).record();
  fake.record.set_name(evil);
  fake.record.set_owner(evil);
  fake.record.set_reason(evil);
  v1::JobSummary* job = fake.jobs.add_jobs();
  job->set_name(evil);
  job->set_owner(evil);
  v1::NodeFacts* facts = fake.nodes.add_nodes()->mutable_record()->mutable_facts();
  facts->set_name("node1");
  facts->set_version(evil);
  facts->set_advertise(evil);
  v1::LogRecord log;
  log.set_node(evil);
  log.set_dropped(7);
  log.set_data("plain\n");
  fake.logs = {log};
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"ls", "-a"},
                                             {"ls", "-a", "-o", "name"},
                                             {"ls", "-a", "-o", "csv"},
                                             {"ls", "-a", "-o", "json"},
                                             {"ls", "-a", "-o", "yaml"},
                                             {"show", "3"},
                                             {"show", "3", "-o", "json"},
                                             {"show", "3", "-o", "yaml"},
                                             {"show", "3", "-o", "name"},
                                             {"nodes", "ls"},
                                             {"nodes", "show", "node1"},
                                             {"logs", "3"}}) {
    const Ended ended = Jobctl(fake, words);
    for (const char* raw : {"\033", "\007", "\u202E", "\xc2\x9b"}) {
      EXPECT_EQ((ended.out + ended.err).find(raw), std::string::npos)
          << words[0] << " " << words.back();
    }
  }
}

TEST(JobctlTest, SecretsAreHiddenInShow) {
  FakeCoordinator fake;
  fake.record = Update(v1::JOB_STATE_RUNNING).record();
  (*fake.record.mutable_spec()->mutable_env())["API_KEY"] = "very-secret";
  for (const char* format : {"json", "yaml"}) {
    const Ended ended = Jobctl(fake, {"show", "3", "-o", format});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out.find("very-secret"), std::string::npos);
    EXPECT_NE(ended.out.find("(hidden)"), std::string::npos);
  }
  EXPECT_NE(Jobctl(fake, {"show", "3"}).out.find("node1"), std::string::npos);
}

TEST(JobctlTest, CompletionKnowsCommandsFlagsAndJobs) {
  FakeCoordinator fake;
  fake.jobs.add_jobs()->set_name("calm-otter-3");
  EXPECT_EQ(Jobctl(fake, {"__complete", "--", "su"}).out, "submit\n");
  EXPECT_EQ(Jobctl(fake, {"__complete", "--", "ckpt", ""}).out, "ls\npull\nrm\nshow\nverify\n");
  EXPECT_EQ(Jobctl(fake, {"__complete", "--", "show", "c"}).out, "calm-otter-3\n");
  EXPECT_EQ(Jobctl(fake, {"__complete", "--", "run", "--dev"}).out, "--devices\n");
  EXPECT_EQ(Jobctl(fake, {"__complete", "--", "ls", "--output", "js"}).out, "json\njsonl\n");
  EXPECT_EQ(Jobctl(fake, {"__complete", "--", "submit", "x"}).out, ":files\n");
}

}  // namespace
}  // namespace muster::client
