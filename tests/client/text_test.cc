// Widths, signals, ranges, verdicts and quoting.
#include <gtest/gtest.h>
#include <signal.h>

#include "client/command_line/errors.h"
#include "client/follow/refusal.h"
#include "client/terminal/record_json.h"
#include "client/terminal/signals.h"
#include "client/terminal/terminal.h"
#include "client/text/job_list.h"
#include "client/text/job_text.h"
#include "client/text/record_text.h"
#include "client/text/version_text.h"
#include "common/problem.h"
#include "common/text/json_text.h"

namespace muster::client {
namespace {

TEST(ShellWordTest, AWordOfSeveralLinesIsCopiedAsOneLine) {
  EXPECT_EQ(ShellQuoteOnOneLine("train.py"), "train.py");
  EXPECT_EQ(ShellQuoteOnOneLine("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuoteOnOneLine("a\nb'c\\\x1b"), "$'a\\nb\\'c\\\\\\033'");
}

TEST(TerminalTest, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("é"), 1u);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1u);
  EXPECT_EQ(DisplayWidth("日本"), 4u);
  EXPECT_EQ(DisplayWidth("🚀"), 2u);
  EXPECT_EQ(DisplayWidth("✓ …"), 3u);
  EXPECT_EQ(Shorten("abcdef", 4), "abc…");
  EXPECT_EQ(Shorten("日本語", 4), "日…");
  EXPECT_EQ(Shorten("abc", 3), "abc");
  EXPECT_EQ(Shorten("abc", 0), "");
}

TEST(TerminalTest, OnlyColorsAndLinesPassTheLastDoor) {
  EXPECT_EQ(Filtered("\033[1mNODE\033[0m\n\ta"), "\033[1mNODE\033[0m\n\ta");
  EXPECT_EQ(Filtered("\033[H\033[2Jls"), "\\x1b[H\\x1b[2Jls");
  EXPECT_EQ(Filtered("a\033]0;title\007b"), "a\\x1b]0;title\\x07b");
  EXPECT_EQ(Filtered("\033[2Jx\r"), "\\x1b[2Jx\\x0d");
  EXPECT_EQ(Filtered("nod\u202Ee"), "nod\\xe2\\x80\\xaee");
}

TEST(JobTextTest, BelowASignalOnlyTheLinesOfItsLastSecondsAreQuoted) {
  v1::GetJobResponse job;
  v1::Attempt* attempt = job.mutable_record()->add_attempts();
  v1::RankExit* culprit = attempt->mutable_culprit();
  culprit->set_last_lines("UserWarning: lr_scheduler.step() before optimizer.step()\n");
  culprit->set_fresh_lines(0);
  culprit->set_exit_code(1);
  EXPECT_NE(ShowJob(job, {}, {}).find("UserWarning"), std::string::npos);
  culprit->set_exit_code(0);
  culprit->set_signal(SIGKILL);
  EXPECT_EQ(ShowJob(job, {}, {}).find("UserWarning"), std::string::npos);
}

TEST(VersionTextTest, NodesWithTheSameVersionsShareALine) {
  v1::Attempt attempt;
  EXPECT_TRUE(VersionLines(attempt).empty());
  attempt.add_parts()->set_node("node0");  // nothing was seen there
  for (const auto& [node, toolkit] :
       {std::pair("node1", "13.0"), std::pair("node2", "cpu"), std::pair("node3", "13.0")}) {
    v1::NodePart& part = *attempt.add_parts();
    part.set_node(node);
    part.mutable_versions()->set_framework("torch 2.11.0");
    part.mutable_versions()->set_toolkit(toolkit);
    part.mutable_versions()->set_driver("550.54.15");
    part.mutable_versions()->set_driver_cuda("12.4");
  }
  EXPECT_EQ(VersionLines(attempt),
            (std::vector<std::string>{
                "torch 2.11.0 (CUDA 13.0), driver 550.54.15 (CUDA up to 12.4): node1, node3",
                "torch 2.11.0 (without CUDA), driver 550.54.15 (CUDA up to 12.4): node2"}));
}

TEST(JsonTest, HiddenCharactersAreEscapedAndStayWhatTheyAre) {
  EXPECT_EQ(common::JsonQuote("a\u202Eb\U000E0001"), "\"a\\u202eb\\udb40\\udc01\"");
  EXPECT_EQ(common::JsonQuote("grün\xff"), "\"grün\xEF\xBF\xBD\"");
  EXPECT_EQ(common::EscapeHiddenJson("{\"a\": \"\u2066ü\"}"), "{\"a\": \"\\u2066ü\"}");
}

TEST(SignalsTest, NamesAndNumbersGoBothWays) {
  for (const char* text : {"USR1", "SIGUSR1", "usr1", "sigusr1", "10"})
    EXPECT_EQ(*ParseSignal(text), SIGUSR1) << text;
  EXPECT_EQ(SignalName(SIGKILL), "SIGKILL");
  EXPECT_EQ(SignalName(99), "signal 99");
  for (const char* text : {"", "0", "-1", "999", "FOO"})
    EXPECT_FALSE(ParseSignal(text).ok()) << text;
  EXPECT_NE(common::ProblemOf(ParseSignal("SIGUSR3").status()).what.find("did you mean \"USR1\"?"),
            std::string::npos);
}

TEST(RecordTextTest, NumbersAreGroupedIntoRanges) {
  google::protobuf::RepeatedField<uint32_t> numbers;
  for (const uint32_t n : {0, 1, 2, 5, 7, 8}) numbers.Add(n);
  EXPECT_EQ(Ranges(numbers), "0-2,5,7-8");
}

v1::JobRecord Record(v1::JobState state, int code) {
  v1::JobRecord record;
  record.set_state(state);
  record.set_exit_code(code);
  record.set_reason("rank 1 on node1 exited with code 7");
  record.set_first_running_ms(1000);
  record.set_finished_ms(42'000);
  return record;
}

TEST(RecordTextTest, TheVerdictIsOneTrueSentenceAndItsCodes) {
  EXPECT_EQ(Verdict(Record(v1::JOB_STATE_SUCCEEDED, 0), false), "✓ succeeded in 41s");
  EXPECT_EQ(Verdict(Record(v1::JOB_STATE_FAILED, 7), false),
            "✗ failed after 41s: rank 1 on node1 exited with code 7");
  EXPECT_EQ(RunExitCode(Record(v1::JOB_STATE_SUCCEEDED, 0)), 0);
  EXPECT_EQ(RunExitCode(Record(v1::JOB_STATE_FAILED, 137)), 137);
  EXPECT_EQ(RunExitCode(Record(v1::JOB_STATE_FAILED, 0)), 1);
  EXPECT_EQ(RunExitCode(Record(v1::JOB_STATE_CANCELLED, 143)), 103);
  EXPECT_EQ(WaitExitCode(Record(v1::JOB_STATE_FAILED, 7), false), 100);
  EXPECT_EQ(WaitExitCode(Record(v1::JOB_STATE_FAILED, 7), true), 7);
  EXPECT_EQ(WaitExitCode(Record(v1::JOB_STATE_CANCELLED, 0), false), 103);
}

TEST(RecordTextTest, AShortTimeIsSaidInMilliseconds) {
  EXPECT_EQ(Took(0), "0ms");
  EXPECT_EQ(Took(4), "4ms");
  EXPECT_EQ(Took(999), "999ms");
  EXPECT_EQ(Took(1'340), "1.3s");
  EXPECT_EQ(Took(41'000), "41s");
}

TEST(JobListTest, RanLeavesOutTheQueueAndTheLossHasItsName) {
  v1::ListJobsResponse response;
  v1::JobSummary* job = response.add_jobs();
  job->set_state(v1::JOB_STATE_SUCCEEDED);
  job->set_first_running_ms(1'000);
  job->set_ran_ms(7'000);
  job->set_finished_ms(3'600'000);
  job->set_has_loss(true);
  job->set_loss_name("train/loss");
  v1::JobSummary* running = response.add_jobs();
  running->set_first_running_ms(1'000);
  running->set_ran_ms(7'000);
  running->set_running_since_ms(WallMs() - 60'000);
  response.add_jobs();
  const Listing listing = JobListing(response);
  const auto cell = [&](int row, std::string_view key) {
    for (size_t i = 0; i < listing.columns.size(); ++i) {
      if (listing.columns[i].key == key) return listing.rows[row][i];
    }
    return Cell("no such column");
  };
  EXPECT_EQ(cell(0, "ran").text, "7.0s");
  EXPECT_EQ(cell(0, "loss_name").text, "train/loss");
  EXPECT_GE(std::get<int64_t>(cell(1, "ran").value), 67'000);
  EXPECT_EQ(cell(2, "ran").text, "");
  EXPECT_EQ(cell(2, "loss_name").text, "");
}

TEST(RefusalTest, AKindThatNoNodeHasIsSaidWithTheKindsThereAre) {
  const absl::Status refused =
      common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                          {.code = "JC1402", .what = "needs 2 npu", .fix = "ask for less"});
  v1::ListNodesResponse nodes;
  const auto add = [&](const char* kind) {
    v1::DeviceUse* use = nodes.add_nodes()->add_uses();
    use->set_kind(kind);
    use->set_total(2);
  };
  v1::JobSpec spec;
  const auto said = [&](const char* kind) {
    spec.mutable_shape()->mutable_device()->set_kind(kind);
    return common::ProblemOf(ExplainMissingKind(refused, spec, nodes)).what;
  };
  EXPECT_EQ(said("npu"), "needs 2 npu") << "nothing is known of any node";
  add("cpu");
  EXPECT_EQ(said("npu"), "the job asks for npu, and this cluster has cpu only");
  EXPECT_EQ(said("cpu"), "needs 2 npu");
  EXPECT_EQ(said(""), "needs 2 npu");
  add("gpu");
  EXPECT_EQ(said("npu"), "the job asks for npu, and this cluster has cpu and gpu only");
  v1::Device* device = nodes.mutable_nodes(0)->mutable_record()->mutable_facts()->add_devices();
  device->set_kind("gpu");
  device->set_model("NVIDIA H100");
  spec.mutable_shape()->mutable_device()->set_model("gpuu");
  EXPECT_EQ(said("gpu"),
            "\"gpuu\" is not a kind of device, and no node has a model of this name; this cluster "
            "has gpu "
            "(NVIDIA H100); did you mean \"gpu\"?");
  spec.mutable_shape()->mutable_device()->set_model("h100");
  EXPECT_EQ(said("gpu"), "needs 2 npu") << "it has some, but not enough";
}

TEST(JobTextTest, SecretsAreHiddenAndTheLineCanBeTyped) {
  v1::JobSpec spec;
  (*spec.mutable_env())["HF_TOKEN"] = "x";
  (*spec.mutable_env())["LR"] = "1";
  HideSecrets(&spec);
  EXPECT_EQ(spec.env().at("HF_TOKEN"), "(hidden)");
  EXPECT_EQ(spec.env().at("LR"), "1");
  spec.mutable_shape()->set_processes(2);
  spec.add_command("sh");
  spec.add_command("-c");
  spec.add_command("echo 'a'");
  EXPECT_EQ(ReproduceLine(spec), "jobctl run -n 2 -- sh -c 'echo '\\''a'\\'''");
}

TEST(JobTextTest, YamlOfARecordReadsLikeItsJson) {
  v1::BulkResponse response;
  v1::BulkResult* result = response.add_results();
  result->set_subject("a: b");
  result->set_job(7);
  const auto yaml = MessageText("ResultList", response, "yaml");
  ASSERT_TRUE(yaml.ok());
  EXPECT_EQ(*yaml,
            "version: 1\nkind: ResultList\nresults:\n  - subject: \"a: b\"\n    job: \"7\"\n    "
            "name: \"\"\n    status_code: 0\n"
            "    message: \"\"\n");
}

}  // namespace
}  // namespace muster::client
