// What jobctl prints is true and answers the question: lists are complete, Ctrl-C says what keeps
// running, unknown names are errors. The real binary against prepared answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <set>
#include <sstream>

#include "absl/strings/str_split.h"
#include "client/terminal/terminal.h"
#include "common/problem.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/jobctl_process.h"

namespace muster::client {
namespace {

constexpr auto kLongEnough = std::chrono::seconds(10);

bool Holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

v1::JobRecord Record(v1::JobState state, uint32_t ranks = 2) {
  v1::JobRecord record;
  record.set_id(3);
  record.set_name("calm-otter-3");
  record.set_state(state);
  record.set_next_attempt(1);
  record.mutable_spec()->mutable_shape()->set_processes(ranks);
  if (state >= v1::JOB_STATE_SUCCEEDED) record.set_finished_ms(42'000);
  v1::Attempt* attempt = record.add_attempts();
  attempt->set_world_size(ranks);
  attempt->add_parts()->set_node("node1");
  return record;
}

// A coordinator that has jobs 1 to `count` and returns pages of at most `page` of them.
// Their age is shown in hours, and is far from the next hour: it stays the same while a test watches it.
void Serve(FakeCoordinator& fake, uint64_t count, uint32_t page) {
  const int64_t submitted_ms =
      absl::ToUnixMillis(absl::Now() - absl::Hours(1'000) - absl::Minutes(30));
  fake.on_list = [count, page, submitted_ms](const v1::ListJobsRequest& request) {
    v1::ListJobsResponse response;
    const uint32_t limit = std::min(request.limit() == 0 ? page : request.limit(), page);
    uint64_t id = request.before_id() == 0 ? count : request.before_id() - 1;
    for (; id > 0 && response.jobs_size() < static_cast<int>(limit); --id) {
      v1::JobSummary* job = response.add_jobs();
      job->set_id(id);
      job->set_name("job-" + std::to_string(id));
      job->set_state(v1::JOB_STATE_SUCCEEDED);
      job->set_submitted_ms(submitted_ms + static_cast<int64_t>(id) * 1000);
      job->set_step(-1);
      job->set_checkpoint_step(-1);
      job->set_command(std::string(100, 'c'));
    }
    response.set_more(id > 0);
    return response;
  };
}

TEST(JobctlListTest, AllWithALimitAsksForThatManyAndPrintsThem) {
  FakeCoordinator fake;
  Serve(fake, 30'000, 10'000);
  const Ended ended = Jobctl(fake, {"ls", "-a", "--limit", "50", "-o", "name"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::vector<std::string> names = LinesOf(ended.out);
  ASSERT_EQ(names.size(), 50u);
  EXPECT_EQ(names.front(), "job-30000");
  EXPECT_EQ(names.back(), "job-29951");
  uint32_t asked = 0;
  for (const v1::ListJobsRequest& request : fake.lists()) asked += request.limit();
  EXPECT_EQ(asked, 50u) << "no more is read than is shown";
}

TEST(JobctlListTest, ThePagesAreReadToTheEndAndPrintedAsTheyCome) {
  FakeCoordinator fake;
  std::binary_semaphore first_page_seen{0};
  std::atomic<bool> seen_before_the_last = false;
  Serve(fake, 25'000, 1'000);
  const auto pages = fake.on_list;
  fake.on_list = [&](const v1::ListJobsRequest& request) {
    const v1::ListJobsResponse page = pages(request);
    // The last page waits until the first has been read: nothing is collected until the end.
    if (!page.more()) seen_before_the_last = first_page_seen.try_acquire_for(kLongEnough);
    return page;
  };
  Process process(fake.endpoint(), {"ls", "-a", "-o", "json"});
  EXPECT_TRUE(process.ReadOutUntil("job-25000"));
  first_page_seen.release();
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  const auto json = nlohmann::json::parse(ended.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["items"].size(), 25'000u);
  EXPECT_EQ(json["items"].back()["job"], "job-1");
  EXPECT_EQ(fake.lists().size(), 25u);
  EXPECT_TRUE(seen_before_the_last);
}

TEST(JobctlListTest, TheLimitCountsWhatAFilterAndAnOrderLeave) {
  FakeCoordinator fake;
  Serve(fake, 5'000, 1'000);
  EXPECT_EQ(Jobctl(fake, {"ls", "-a", "--filter", "job=job-7", "--limit", "1", "-o", "name"}).out,
            "job-7\n");
  EXPECT_EQ(Jobctl(fake, {"ls", "-a", "--sort", "id", "--limit", "2", "-o", "name"}).out,
            "job-1\njob-2\n");
}

TEST(JobctlListTest, SortingByAgeMeansTheAgeAndProgramsReadMoments) {
  FakeCoordinator fake;
  Serve(fake, 3, 10);
  EXPECT_EQ(Jobctl(fake, {"ls", "-a", "--sort", "-age", "-o", "name"}).out, "job-1\njob-2\njob-3\n")
      << "the oldest first, as the help says";
  EXPECT_EQ(Jobctl(fake, {"ls", "-a", "--sort", "age", "-o", "name"}).out, "job-3\njob-2\njob-1\n");
  EXPECT_EQ(Jobctl(fake, {"ls", "-a", "--sort", "submitted_ms", "-o", "name"}).out,
            "job-1\njob-2\njob-3\n");
  const auto json = nlohmann::json::parse(Jobctl(fake, {"ls", "-a", "-o", "json"}).out);
  EXPECT_EQ(json["items"][0]["submitted_ms"].get<int64_t>(),
            json["items"][2]["submitted_ms"].get<int64_t>() + 2'000);
  EXPECT_TRUE(json["items"][0].contains("ran_ms"));
  EXPECT_FALSE(json["items"][0].contains("age"));
  EXPECT_TRUE(
      Jobctl(fake, {"ls", "-a"}).out.starts_with("JOB\tSTATE\tDEVICES\tSTEP\tLOSS\tETA\tAGE\t"));
}

TEST(JobctlListTest, LabelsAreSelectedByTheCoordinatorAndShown) {
  FakeCoordinator fake;
  v1::JobSummary* job = fake.jobs.add_jobs();
  job->set_name("calm-otter-3");
  (*job->mutable_labels())["team"] = "vision";
  (*job->mutable_labels())["sweep"] = "7";
  fake.jobs.set_labels_met(true);
  const Ended ended =
      Jobctl(fake, {"ls", "-l", "team=vision,sweep!=8", "-l", "!gone", "-o", "json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto labels = nlohmann::json::parse(ended.out)["items"][0]["labels"];
  EXPECT_EQ(labels, (nlohmann::json{{"sweep", "7"}, {"team", "vision"}}));
  const auto asked = fake.lists().back().labels();
  EXPECT_EQ(std::vector<std::string>(asked.begin(), asked.end()),
            (std::vector<std::string>{"team=vision", "sweep!=8", "!gone"}));
  EXPECT_TRUE(Holds(Jobctl(fake, {"ls", "-o", "csv", "--columns", "labels"}).out,
                    "\"sweep=7,team=vision\"\n"));
  EXPECT_TRUE(Holds(Jobctl(fake, {"ls", "-o", "wide"}).out, "\tsweep=7, team=vision\t"));
  EXPECT_EQ(Jobctl(fake, {"ls", "-l", "a b"}).code, 2);
}

TEST(JobctlListTest, AnOlderCoordinatorThatWouldListAllJobsIsNotTakenAtItsWord) {
  FakeCoordinator fake;
  fake.jobs.add_jobs()->set_name("calm-otter-3");
  const Ended ended = Jobctl(fake, {"ls", "-l", "team=vision", "-o", "name"});
  EXPECT_NE(ended.code, 0);
  EXPECT_EQ(ended.out, "");
  EXPECT_TRUE(Holds(ended.err, "cannot select jobs by labels")) << ended.err;
}

TEST(JobctlSubmitTest, LabelsOfTheLineAndOfARerunAreSent) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_RUNNING);
  ASSERT_EQ(Jobctl(fake, {"submit", "-l", "team=vision", "--label", "sweep=7", "--", "train"}).code,
            0);
  const auto labels = fake.last_submit().spec().labels();
  EXPECT_EQ(labels.at("team"), "vision");
  EXPECT_EQ(labels.at("sweep"), "7");
  const Ended refused = Jobctl(fake, {"submit", "-l", "team", "--", "train"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(Holds(refused.err, "the label \"team\" is not KEY=VALUE")) << refused.err;
  ASSERT_EQ(Jobctl(fake, {"rerun", "3", "-l", "sweep=8", "-l", "old-"}).code, 0);
  EXPECT_EQ(fake.last_rerun().labels().at("sweep"), "8");
  EXPECT_EQ(fake.last_rerun().dropped_labels(0), "old");
}

// What a screen shows after all that was sent to it.
std::vector<std::string> ScreenAfter(const std::string& sent, size_t rows, size_t columns) {
  std::vector<std::string> screen(rows, std::string(columns, ' '));
  size_t row = 0, column = 0;
  for (size_t at = 0; at < sent.size();) {
    if (sent[at] != '\033') {
      if (static_cast<unsigned char>(sent[at]) < 0x80 || (sent[at] & 0x40) != 0) {
        EXPECT_LT(column, columns) << "a line is longer than the screen is wide";
        if (row < rows && column < columns) screen[row][column++] = sent[at];
      }
      ++at;
      continue;
    }
    const size_t end = sent.find_first_of("hlmHJK", at);
    const std::string sequence = sent.substr(at, end - at + 1);
    if (sequence.back() == 'H') {
      row = sequence == "\033[H" ? 0 : std::stoul(sequence.substr(2)) - 1;
      column = 0;
      EXPECT_LT(row, rows);
    } else if (sequence == "\033[K" || sequence == "\033[J") {
      screen[row].replace(column, columns - column, columns - column, ' ');
      for (size_t i = row + 1; sequence == "\033[J" && i < rows; ++i)
        screen[i].assign(columns, ' ');
    }
    at = end + 1;
  }
  for (std::string& line : screen) line.erase(line.find_last_not_of(' ') + 1);
  return screen;
}

TEST(JobctlListTest, WatchingFitsTheScreenAndWritesOnlyWhatChanged) {
  FakeCoordinator fake;
  Serve(fake, 500, 1'000);
  const Surroundings screen = {.server = fake.endpoint(), .terminal = {.ws_row = 10, .ws_col = 60}};
  for (const char* output : {"table", "wide"}) {
    Process process(screen, {"ls", "-a", "-w", "-o", output});
    const std::string end = "\033[?2026l";
    ASSERT_TRUE(process.ReadOutUntil(end));
    const size_t first = process.out().find(end) + end.size();
    // It now knows how many rows fit, and has read a page more of them.
    ASSERT_TRUE(process.ReadOutUntil(end, 2));
    EXPECT_EQ(process.out().substr(first), "\033[?2026h\033[10;1Hrows 1-8 of 17+  \033[?2026l");
    const std::vector<std::string> shown = ScreenAfter(process.out(), 10, 60);
    EXPECT_TRUE(shown[0].starts_with("JOB ")) << shown[0];
    EXPECT_TRUE(shown[1].starts_with("job-500 ")) << shown[1];
    EXPECT_TRUE(shown[8].starts_with("job-493 ")) << shown[8];
    EXPECT_EQ(process.out().find("\033[2J"), std::string::npos) << "nothing is blanked first";
  }
  for (const v1::ListJobsRequest& request : fake.lists())
    EXPECT_LE(request.limit(), 20u) << "no more is read than may be scrolled to";
}

TEST(JobctlListTest, EveryRecordForProgramsHasAVersionAndAKind) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_SUCCEEDED);
  fake.why.set_state(v1::JOB_STATE_QUEUED);
  fake.why.set_text("needs 4 gpu");
  fake.why.add_details("node1: 2 of 4");
  fake.nodes.add_nodes()->mutable_record()->mutable_facts()->set_name("node1");
  struct Asked {
    std::vector<std::string> line;
    std::string kind;
    std::string field;
  };
  const Asked kAll[] = {{{"why", "3"}, "JobReason", "details"},
                        {{"show", "3"}, "Job", "spec"},
                        {{"nodes", "show", "node1"}, "Node", "record"},
                        {{"version"}, "Version", "server_protocol"},
                        {{"version", "--client"}, "Version", "client_protocol"},
                        {{"context", "show"}, "Context", "server"},
                        {{"explain", "JC1201"}, "ErrorCode", "fix"},
                        {{"wait", "3"}, "WaitList", "items"},
                        {{"cancel", "3", "gone"}, "ResultList", "items"},
                        {{"submit", "--", "train"}, "SubmittedJob", "job"},
                        {{"rerun", "3"}, "SubmittedJob", "rerun_of"},
                        {{"diff", "3", "3"}, "JobDifference", "differences"},
                        {{"nodes", "ls"}, "NodeList", "items"},
                        {{"ckpt", "ls", "3"}, "CheckpointList", "items"},
                        {{"context", "ls"}, "ContextList", "items"},
                        {{"config", "view"}, "SettingList", "items"}};
  for (const Asked& asked : kAll) {
    std::vector<std::string> line = asked.line;
    line.insert(std::find(line.begin(), line.end(), "--"), {"-o", "json"});
    const Ended ended = Jobctl(fake, line);
    const auto json = nlohmann::json::parse(ended.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line[0] << ": " << ended.out << ended.err;
    EXPECT_EQ(json["version"], 1) << line[0];
    EXPECT_EQ(json["kind"], asked.kind) << line[0];
    EXPECT_TRUE(json.contains(asked.field)) << ended.out;
  }
  EXPECT_EQ(Jobctl(fake, {"why", "3", "-o", "json"}).out,
            "{\n \"version\": 1,\n \"kind\": \"JobReason\",\n \"state\": \"QUEUED\",\n"
            " \"text\": \"needs 4 gpu\",\n \"details\": [\n  \"node1: 2 of 4\"\n ]\n}\n");
  EXPECT_EQ(Jobctl(fake, {"cancel", "3", "gone", "-o", "csv"}).out,
            "subject,name,done,message,code\n3,3,true,is being cancelled,\n"
            "gone,gone,false,there is no job gone,JC1201\n");
  EXPECT_EQ(Jobctl(fake, {"cancel", "3", "gone", "-o", "csv"}).code, 3);
  EXPECT_EQ(Jobctl(fake, {"wait", "3", "-o", "csv"}).out,
            "job,id,state,exit,reason\ncalm-otter-3,3,SUCCEEDED,0,\n");
}

// Two ranks that print the same, of a job that ends.
void ServeTwins(FakeCoordinator& fake) {
  fake.record = Record(v1::JOB_STATE_SUCCEEDED);
  fake.record.mutable_attempts(0)->mutable_parts(0)->set_local_world_size(2);
  for (const v1::JobState state : {v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED}) {
    *fake.updates.emplace_back().mutable_record() = fake.record;
    fake.updates.back().mutable_record()->set_state(state);
  }
  for (const uint32_t rank : {0u, 1u}) {
    v1::LogRecord log;
    log.set_rank(rank);
    log.set_node("node1");
    log.set_data("loading\n");
    log.set_end(true);
    fake.logs.push_back(log);
  }
}

TEST(JobctlFoldTest, RunAndFollowFoldEqualLinesOnATerminalAndNowhereElse) {
  FakeCoordinator fake;
  ServeTwins(fake);
  const Surroundings screen = {.server = fake.endpoint(), .terminal = {.ws_row = 24, .ws_col = 80}};
  const std::string apart = "[node1:0] loading\n[node1:1] loading\n";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", "-n", "2"}, {"submit", "-q", "-o", "name", "-f", "-n", "2"}}) {
    const auto with = [&words](std::vector<std::string> more) {
      more.insert(more.begin(), words.begin(), words.end());
      more.insert(more.end(), {"--color", "never", "--", "train"});
      return more;
    };
    const std::string folded = Process(screen, with({})).End().out;
    EXPECT_TRUE(Holds(folded, "[2 ranks] loading\r\n")) << folded;
    EXPECT_FALSE(Holds(folded, "node1:")) << folded;
    EXPECT_FALSE(Holds(Process(screen, with({"--no-fold"})).End().out, "[2 ranks]"));
    EXPECT_TRUE(Holds(Jobctl(fake, with({})).out, apart)) << "a pipe";
  }
}

TEST(JobctlFollowTest, CtrlCSaysThatTheJobGoesOnAndHowToComeBack) {
  struct Following {
    std::vector<std::string> line;
    std::string job;
    std::string again;
  };
  const Following kAll[] = {
      {{"submit", "-f", "--", "train"}, "calm-otter-3", "jobctl logs -f calm-otter-3"},
      {{"rerun", "-f", "calm-otter-3"}, "calm-otter-4", "jobctl logs -f calm-otter-4"},
      {{"logs", "-f", "@last"}, "calm-otter-3", "jobctl logs -f calm-otter-3"}};
  for (const Following& following : kAll) {
    FakeCoordinator fake;
    fake.record = Record(v1::JOB_STATE_RUNNING);
    v1::LogRecord log;
    log.set_node("node1");
    log.set_data("step 1\n");
    fake.logs = {log};
    fake.follow_for_ever = true;
    Process process(fake.endpoint(), following.line);
    ASSERT_TRUE(process.ReadOutUntil("step 1"));
    process.Signal(SIGINT);
    const Ended ended = process.End();
    EXPECT_EQ(ended.code, 130) << following.line[0] << ": " << ended.err;
    EXPECT_TRUE(Holds(ended.err, "detached; " + following.job + " keeps running")) << ended.err;
    EXPECT_TRUE(Holds(ended.err, following.again)) << ended.err;
    EXPECT_TRUE(Holds(ended.err, "jobctl cancel " + following.job)) << ended.err;
    EXPECT_TRUE(fake.cancels().empty());
  }
}

TEST(JobctlFollowTest, CtrlCWhileWaitingSaysItToo) {
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"wait", "@last"}, {"submit", "--wait", "--", "train"}}) {
    FakeCoordinator fake;
    fake.record = Record(v1::JOB_STATE_RUNNING);
    std::binary_semaphore watched{0};
    fake.on_watch = [&] { watched.release(); };
    Process process(fake.endpoint(), line);
    ASSERT_TRUE(watched.try_acquire_for(kLongEnough));
    process.Signal(SIGINT);
    const Ended ended = process.End();
    EXPECT_EQ(ended.code, 130) << ended.err;
    EXPECT_TRUE(Holds(ended.err, "detached; calm-otter-3 keeps running. To reattach: jobctl wait "))
        << ended.err;
  }
}

TEST(JobctlFollowTest, CtrlCStopsARunAlsoWhenItsLineHadDevicesCounted) {
  FakeCoordinator fake;
  v1::DeviceUse* use = fake.nodes.add_nodes()->add_uses();
  use->set_kind("cpu");
  use->set_total(2);
  fake.updates.resize(1);
  *fake.updates[0].mutable_record() = Record(v1::JOB_STATE_RUNNING);
  fake.wait_for_cancel = true;
  Process process(fake.endpoint(), {"run", "--", "torchrun", "--nproc-per-node", "cpu", "t.py"});
  ASSERT_TRUE(process.ReadUntil("2 ranks on 1 node"));
  process.Signal(SIGINT);
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 130);
  EXPECT_TRUE(Holds(ended.err, "stopping calm-otter-3 (grace 30s")) << ended.err;
  EXPECT_EQ(fake.cancels().size(), 1u);
}

TEST(JobctlSubmitTest, ADryRunForProgramsIsJson) {
  FakeCoordinator fake;
  fake.submitted.set_layout("1 rank on 1 node (node1: cpu 0)");
  const Ended ended = Jobctl(fake, {"submit", "--dry-run", "-o", "json", "--", "train"});
  const auto json = nlohmann::json::parse(ended.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ended.out;
  EXPECT_EQ(json["dry_run"], true);
  EXPECT_EQ(json["starts_now"], true);
  EXPECT_EQ(json["layout"], "1 rank on 1 node (node1: cpu 0)");
  fake.submitted.set_reason("waits for 2 cpu");
  EXPECT_EQ(nlohmann::json::parse(
                Jobctl(fake, {"submit", "--dry-run", "-o", "json", "--", "train"}).out)["reason"],
            "waits for 2 cpu");
  EXPECT_EQ(Jobctl(fake, {"submit", "--dry-run", "-o", "name", "--", "train"}).code, 2);
}

TEST(JobctlSubmitTest, AUsedKeyIsARefusal) {
  FakeCoordinator fake;
  fake.submit_error = common::MakeProblem(
      absl::StatusCode::kAlreadyExists,
      {.code = "JC1205", .what = "the key k1 belongs to job 3", .fix = "use a new key"});
  EXPECT_EQ(Jobctl(fake, {"submit", "--idempotency-key", "k1", "--", "train"}).code, 6);
}

TEST(JobctlSubmitTest, AKindThatNoNodeHasIsNamedWithThoseThereAre) {
  FakeCoordinator fake;
  fake.submit_error = common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1402",
       .what = "the job needs 2 gpu; it would not fit even if all registered nodes were free",
       .fix = "ask for less"});
  v1::DeviceUse* use = fake.nodes.add_nodes()->add_uses();
  use->set_kind("cpu");
  use->set_total(4);
  for (const char* verb : {"submit", "run"}) {
    const Ended ended = Jobctl(fake, {verb, "-n", "2", "--devices", "gpu", "--", "train"});
    if (std::string(verb) == "run") continue;
    EXPECT_EQ(ended.code, 6);
    EXPECT_EQ(ended.err,
              "error: the job asks for gpu, and this cluster has cpu only [JC1402]\n"
              "fix:   --devices cpu, or --queue-anyway to wait for a node with gpu\n");
  }
  // If only the number of a kind is too large, the coordinator's numbers are kept.
  EXPECT_TRUE(Holds(Jobctl(fake, {"submit", "-n", "9", "--devices", "cpu", "--", "train"}).err,
                    "it would not fit even if all registered nodes were free"));
}

TEST(JobctlLogsTest, ARankAnAttemptOrANodeThatIsNotThereIsAnError) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_SUCCEEDED);
  for (const char* node : {"node1", "node2"})
    fake.nodes.add_nodes()->mutable_record()->mutable_facts()->set_name(node);
  const auto error = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"logs", "@last"});
    const Ended ended = Jobctl(fake, flags);
    EXPECT_EQ(ended.code, 3) << ended.err;
    return ended.err;
  };
  EXPECT_TRUE(
      Holds(error({"--rank", "9"}), "calm-otter-3 has no rank 9, only ranks 0 to 1 [JC1211]"));
  EXPECT_TRUE(Holds(error({"--rank", "0,1-2"}), "has no rank 2, only"));
  EXPECT_TRUE(Holds(error({"--attempt", "7"}), "calm-otter-3 has no attempt 7, only attempt 0"));
  EXPECT_TRUE(Holds(error({"--node", "node9"}),
                    "there is no node \"node9\"; did you mean \"node1\"? [JC1401]"));
  EXPECT_TRUE(
      Holds(error({"--node", "node2"}), "no rank of calm-otter-3 ran on node2, only on node1"));
  for (const std::vector<std::string>& fine : std::vector<std::vector<std::string>>{
           {"--rank", "0-1"}, {"--attempt", "0"}, {"--node", "node1"}}) {
    std::vector<std::string> line = {"logs", "@last"};
    line.insert(line.end(), fine.begin(), fine.end());
    const Ended ended = Jobctl(fake, line);
    EXPECT_EQ(ended.code, 0) << fine[0];
    EXPECT_EQ(ended.err, "no output (yet)\n");
  }
}

TEST(JobctlMetricsTest, ARankThatLoggedNoneIsSaidWithThoseThatDid) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_SUCCEEDED);
  v1::MetricSummary* loss = fake.metrics.add_summaries();
  loss->set_name("loss");
  loss->set_count(3);
  fake.metrics.set_dropped(1);
  fake.metrics.set_damaged_bytes(70);
  const Ended ended = Jobctl(fake, {"metrics", "3", "--rank", "1"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_TRUE(Holds(ended.err, "rank 1 logged none; rank 0 did\n")) << ended.err;
  EXPECT_TRUE(Holds(ended.err, "1 point was dropped by the trainers")) << ended.err;
  EXPECT_TRUE(Holds(ended.err, "70 bytes of metrics are damaged")) << ended.err;
  EXPECT_TRUE(
      Holds(Jobctl(fake, {"metrics", "3", "--rank", "5"}).err, "calm-otter-3 has no rank 5"));
  fake.metrics.clear_summaries();
  EXPECT_TRUE(Holds(Jobctl(fake, {"metrics", "3"}).err, "calm-otter-3 has no metrics; looked at"));
}

// What `jobctl metrics` shows on a terminal of 80 columns for two metrics of two ranks, of which
// both have these names.
std::vector<std::string> MetricsOn80Columns(const std::string& one, const std::string& other) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_SUCCEEDED);
  for (uint32_t i = 0; i < 4; ++i) {
    v1::MetricSummary* summary = fake.metrics.add_summaries();
    summary->set_name(i < 2 ? one : other);
    summary->set_rank(i % 2);
    summary->set_count(100'000);
    summary->set_last_step(100'000);
    for (auto set : {&v1::MetricSummary::set_first, &v1::MetricSummary::set_last,
                     &v1::MetricSummary::set_min, &v1::MetricSummary::set_max})
      (summary->*set)(-1.23456e-5);
    for (int point = 0; point < 32; ++point) summary->add_spark(point);
  }
  const Ended ended = Process({.server = fake.endpoint(), .terminal = {24, 80, 0, 0}},
                              {"metrics", "3", "--color", "never"})
                          .End();
  std::vector<std::string> lines = absl::StrSplit(ended.out, "\r\n", absl::SkipEmpty());
  EXPECT_EQ(std::set(lines.begin(), lines.end()).size(), 5u) << ended.out;
  for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), 80u) << ended.out;
  return lines;
}

TEST(JobctlMetricsTest, TheTableFits80ColumnsWithNamesWhole) {
  EXPECT_TRUE(Holds(MetricsOn80Columns("loss", "train/loss")[3], "train/loss "));
  EXPECT_TRUE(Holds(MetricsOn80Columns("loss", "loss/time")[0], "FIRST"));
  const std::string name = "eval/validation_accuracy_of_class";
  const std::vector<std::string> lines = MetricsOn80Columns(name + "_1", name + "_2");
  EXPECT_TRUE(Holds(lines[1], name + "_1 ")) << "other columns go first: " << lines[1];
}

TEST(JobctlMetricsTest, NamesOfAThirdOfTheScreenAndMoreStillDiffer) {
  const std::string half(60, 'a');
  EXPECT_TRUE(Holds(MetricsOn80Columns(half + half + "1", half + half + "2")[1], "…"));
}

TEST(JobctlNamesTest, AQuestionAndAnAnswerNameTheJobItself) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Jobctl(fake, {"rerun", "@last"}).out, "calm-otter-4 repeats calm-otter-3\n");
  EXPECT_EQ(nlohmann::json::parse(Jobctl(fake, {"rerun", "@last", "-o", "json"}).out)["rerun_of"],
            3);
  EXPECT_TRUE(Holds(Jobctl(fake, {"rm", "@last"}).err, "Remove calm-otter-3 with logs"));
  EXPECT_TRUE(Holds(Jobctl(fake, {"wait", "@last", "--timeout", "300ms"}).err,
                    "job calm-otter-3 did not reach it within 300ms"));
  v1::Checkpoint* checkpoint = fake.record.add_checkpoints();
  checkpoint->set_step(5);
  checkpoint->set_state(v1::CHECKPOINT_STATE_COMMITTED);
  EXPECT_TRUE(Holds(Jobctl(fake, {"ckpt", "rm", "@last", "last"}).err,
                    "Remove the checkpoint of step 5 of calm-otter-3?"));
}

class JobctlContextTest : public ::testing::Test {
 protected:
  Ended Run(std::vector<std::string> words) {
    return Process(Surroundings{.config = File()}, std::move(words)).End();
  }
  std::string File() const { return fake_.directory() + "/config.yaml"; }
  void TearDown() override { unlink(File().c_str()); }
  FakeCoordinator fake_;  // for its directory
};

TEST_F(JobctlContextTest, AnotherAddressIsNotPutInPlaceOfTheOldOneUnasked) {
  EXPECT_EQ(Run({"context", "add", "lab", "head:7700"}).code, 0);
  EXPECT_EQ(Run({"context", "add", "lab", "head:7700"}).code, 0) << "nothing changes";
  const Ended refused = Run({"context", "add", "lab", "other:1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(Holds(refused.err,
                    "The context lab is head:7700. Change it to other:1? There is no terminal"))
      << refused.err;
  EXPECT_TRUE(Holds(Run({"context", "ls"}).out, "lab\thead:7700"));
  EXPECT_EQ(Run({"context", "add", "lab", "other:1", "--yes"}).code, 0);
  EXPECT_TRUE(Holds(Run({"context", "ls"}).out, "lab\tother:1"));
}

TEST_F(JobctlContextTest, AServerWithoutAnAddressIsAnErrorAndNoPrivateRun) {
  const Ended empty = Run({"-s", "", "ls"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_TRUE(Holds(empty.err, "--server \"\" is neither HOST:PORT")) << empty.err;
  const Ended word = Run({"-s", "foo", "ls"});
  EXPECT_EQ(word.code, 2);
  EXPECT_TRUE(Holds(word.err,
                    "--server \"foo\" is neither HOST:PORT nor unix:/PATH [JC1004]\n"
                    "fix:   add the port, like foo:7700"))
      << word.err;
}

TEST_F(JobctlContextTest, TheVersionIsToldAnywhereAndAsksNobody) {
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"--version"}, {"-V"}, {"ls", "-V"}, {"-s", "", "-V"}}) {
    const Ended ended = Run(line);
    EXPECT_EQ(ended.code, 0) << line[0] << ": " << ended.err;
    EXPECT_TRUE(ended.out.starts_with("client 0.")) << ended.out;
    EXPECT_EQ(LinesOf(ended.out).size(), 1u);
  }
}

TEST_F(JobctlContextTest, WhatHelpsWithWrongSettingsNeedsNone) {
  std::ofstream(File()) << "contexts: [\n";
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"help"}, {"explain", "JC1004"}, {"completion", "bash"}, {"version", "--client"}}) {
    const Ended ended = Run(line);
    EXPECT_EQ(ended.code, 0) << line[0] << ": " << ended.err;
    EXPECT_FALSE(ended.out.empty()) << line[0];
  }
  for (const char* word : {"ls", "version"}) {
    const Ended ended = Run({word});
    EXPECT_NE(ended.code, 0) << word;
    EXPECT_TRUE(Holds(ended.err, "config.yaml")) << ended.err;
  }
}

TEST(JobctlCompletionTest, ValuesAndTheRightObjectsAreOffered) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_RUNNING);
  v1::Checkpoint* checkpoint = fake.record.add_checkpoints();
  checkpoint->set_step(120);
  checkpoint->set_state(v1::CHECKPOINT_STATE_COMMITTED);
  fake.jobs.add_jobs()->set_name("calm-otter-3");
  fake.nodes.add_nodes()->mutable_record()->mutable_facts()->set_name("node1");
  struct Typed {
    std::vector<std::string> line;
    std::string offered;
  };
  const Typed kTyped[] = {
      {{"ls", "-o", "js"}, "json\njsonl\n"},
      {{"ls", "-ao", "y"}, "yaml\n"},
      {{"ls", "--output=js"}, "--output=json\n--output=jsonl\n"},
      {{"ls", "--output", "=", "js"}, "json\njsonl\n"},
      {{"ls", "--state", "queued,ru"}, "queued,running\n"},
      {{"logs", "--stream", ""}, "stderr\nstdout\n"},
      {{"logs", "--node", "n"}, "node1\n"},
      {{"wait", "--for", "r"}, "running\n"},
      {{"--color", "a"}, "always\nauto\n"},
      {{"run", "--devices", "g"}, "gpu\n"},
      {{"signal", "c"}, "calm-otter-3\n"},
      {{"signal", "calm-otter-3", "USR"}, "USR1\nUSR2\n"},
      {{"signal", "calm-otter-3", "USR1", ""}, ""},
      {{"ckpt", "show", "c"}, "calm-otter-3\n"},
      {{"ckpt", "show", "calm-otter-3", ""}, "120\nlast\n"},
      {{"rerun", "calm-otter-3", "--from", ""}, "120\nlast\n"},
      {{"show", "calm-otter-3", ""}, ""},
      {{"nodes", "drain", "node9", "n"}, "node1\n"},
      {{"completion", "z"}, "zsh\n"},
      {{"help", "ckpt", "s"}, "show\n"},
      {{"run", "python", "tr"}, ":files\n"},
  };
  for (const Typed& typed : kTyped) {
    std::vector<std::string> line = {"__complete", "--"};
    line.insert(line.end(), typed.line.begin(), typed.line.end());
    EXPECT_EQ(Jobctl(fake, line).out, typed.offered) << typed.line[0] << " … " << typed.line.back();
  }
}

TEST(JobctlSaysTest, TheWorstFindingStandsAboveEverythingElse) {
  FakeCoordinator fake;
  fake.record = Record(v1::JOB_STATE_RUNNING);
  const Ended older = Jobctl(fake, {"show", "calm-otter-3"});
  EXPECT_TRUE(older.out.starts_with("Job ")) << "an older coordinator does not judge\n"
                                             << older.out;
  fake.assessment.set_job(3);
  fake.assessment.set_eta_ms(732'000);
  v1::Finding* finding = fake.assessment.add_findings();
  finding->set_code("idle-devices");
  finding->set_sentence("1 of 2 devices is busy");
  finding->set_cause("the launcher was forgotten");
  finding->set_fix("jobctl run -n 2 -- python train.py");
  const Ended shown = Jobctl(fake, {"show", "calm-otter-3"});
  EXPECT_TRUE(
      shown.out.starts_with("! 1 of 2 devices is busy: the launcher was forgotten\n"
                            "  fix: jobctl run -n 2 -- python train.py\n\nJob "))
      << shown.out;
  EXPECT_TRUE(Holds(shown.out, "Done in      about 12m")) << shown.out;
  const auto json = nlohmann::json::parse(Jobctl(fake, {"show", "calm-otter-3", "-o", "json"}).out);
  EXPECT_EQ(json["name"], "calm-otter-3");
  EXPECT_EQ(json["assessment"]["findings"][0]["code"], "idle-devices");
}

}  // namespace
}  // namespace muster::client
