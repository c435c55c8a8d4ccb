// What a projection that follows the journal has after a crash, and what it holds back until then.
#include "coordinator/store_parts/followed_journal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <future>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/loop/control_loop.h"
#include "coordinator/sqlite/job_index.h"
#include "coordinator/sqlite/journal.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/following_index.h"
#include "tests/stores/opened_journal.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// Kills its process between the log's commit and its own, at the Nth group of turns; or after its own.
class DeadlyIndex final : public Projection {
 public:
  DeadlyIndex(const std::string& path, int dies_at, bool takes_first)
      : index_(FollowingIndex::Open(path)), dies_at_(dies_at), takes_first_(takes_first) {}
  std::string Place() const override { return index_->Place(); }
  absl::StatusOr<uint64_t> Position() override { return index_->Position(); }
  absl::Status Take(const std::vector<JournalRecord>& turns) override {
    const bool dies = ++takes_ == dies_at_;
    if (dies && !takes_first_) kill(getpid(), SIGKILL);
    const absl::Status taken = index_->Take(turns);
    if (dies) kill(getpid(), SIGKILL);
    return taken;
  }

 private:
  const std::unique_ptr<FollowingIndex> index_;
  const int dies_at_;
  const bool takes_first_;
  int takes_ = 0;
};

std::unique_ptr<Journal> OpenLog(const Paths& paths) {
  auto log = OpenSqliteJournal(paths, nullptr, std::make_shared<WriteTurns>(), Carried::kNothing);
  EXPECT_TRUE(log.ok()) << log.status();
  return *std::move(log);
}

// A control loop over a journal and its index, until it is destroyed.
class RunningLoop {
 public:
  RunningLoop(std::unique_ptr<Journal> opened, const std::string& index_file)
      : journal(std::move(opened)), index(*SqliteJobIndex::Open(index_file, nullptr)) {
    const absl::Status recovered = loop.Recover(index.get());
    EXPECT_TRUE(recovered.ok()) << recovered;
    journal->Start({.durable = [this](uint64_t turn) { loop.OnDurable(turn); },
                    .disk_full = [](bool) {},
                    .stuck = [this](const absl::Status& why) { loop.OnStuck(why); },
                    .failed = [](const absl::Status& why) { ADD_FAILURE() << why; }});
    loop.Start({});
  }
  // With an index that follows it.
  RunningLoop(const Paths& paths, Projection& following, const std::string& index_file)
      : RunningLoop(*FollowJournal(OpenLog(paths), {&following}), index_file) {}
  ~RunningLoop() {
    loop.Stop();
    EXPECT_TRUE(journal->Stop().ok());
  }

  Reply Ask(Input input) {
    std::promise<Reply> said;
    EXPECT_TRUE(
        loop.Submit(std::move(input), [&](const Reply& reply) { said.set_value(reply); }).ok());
    return said.get_future().get();
  }
  uint64_t Submit(const std::string& key) {
    SubmitInput submit;
    submit.caller.principal = "uid:1";
    submit.request.mutable_spec()->add_command("true");
    submit.request.mutable_spec()->set_workdir("/");
    submit.request.mutable_spec()->mutable_shape()->set_processes(1);
    submit.request.set_queue_anyway(true);
    submit.request.set_idempotency_key(key);
    return Ask(std::move(submit)).submit.job();
  }
  void Cancel(uint64_t job) {
    CancelInput cancel;
    cancel.caller.principal = "uid:1";
    cancel.jobs = {job};
    Ask(std::move(cancel));
  }
  void Remove(uint64_t job) {
    const v1::JobRecord record = **index->Find(job);
    RemoveInput remove{.caller = {.principal = "uid:1"},
                       .jobs = {{.id = job,
                                 .name = record.name(),
                                 .owner = record.owner(),
                                 .idempotency_key = record.idempotency_key()}}};
    Ask(std::move(remove));
  }
  std::vector<uint64_t> Live() {
    std::promise<std::vector<uint64_t>> said;
    loop.Ask([&](const LoopView& view) -> std::function<void()> {
      std::vector<uint64_t> live;
      for (const auto& [id, job] : view.state.jobs) live.push_back(id);
      return [&said, live] { said.set_value(live); };
    });
    return said.get_future().get();
  }

  const common::SystemClock clock;
  const std::unique_ptr<Journal> journal;
  const std::unique_ptr<JobIndex> index;
  ControlLoop loop{*journal, clock, Settings{}};
};

class FollowedJournalTest : public testing::Test {
 protected:
  // Jobs that come, end and go, each step said to `to` once the coordinator has answered; until the
  // process is killed.
  [[noreturn]] void LiveDangerously(int dies_at, bool takes_first, int to) {
    DeadlyIndex deadly(index_file, dies_at, takes_first);
    RunningLoop coordinator(paths, deadly, index_file);
    const auto say = [&](const std::string& what, uint64_t job) {
      const std::string line = StrCat(what, " ", job, "\n");
      if (write(to, line.data(), line.size()) < 0) _exit(3);
    };
    for (int i = 0; i < 200; ++i) {
      const uint64_t job = coordinator.Submit(StrCat("key-", getpid(), "-", i));
      say("submitted", job);
      if (i % 3 == 0) continue;
      coordinator.Cancel(job);
      say(i % 3 == 1 ? "ended" : "leaving", job);
      if (i % 3 == 1) continue;
      coordinator.Remove(job);
      say("removed", job);
    }
    _exit(4);
  }

  // What was answered before the kill, in `said`.
  void LiveUntilKilled(int dies_at, bool takes_first) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) LiveDangerously(dies_at, takes_first, ends[1]);
    close(ends[1]);
    std::string text;
    char bytes[4'096];
    for (ssize_t got = 0; (got = read(ends[0], bytes, sizeof bytes)) > 0;) text.append(bytes, got);
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    std::istringstream lines(text);
    std::string what;
    for (uint64_t job = 0; lines >> what >> job;) said[job] = what;
  }

  void ExpectNothingForgotten() {
    const auto following = FollowingIndex::Open(index_file);
    RunningLoop coordinator(paths, *following, index_file);
    const std::vector<uint64_t> live = coordinator.Live();
    for (const auto& [job, what] : said) {
      const bool is_live = std::find(live.begin(), live.end(), job) != live.end();
      const auto found = *coordinator.index->Find(job);
      EXPECT_FALSE(is_live && found.has_value()) << job << " is twice";
      if (what == "submitted") {
        EXPECT_TRUE(is_live || found.has_value()) << job << " was submitted";
      } else if (what == "leaving") {
        EXPECT_FALSE(is_live) << job << " has ended, and may be removed";
      } else if (what == "ended") {
        EXPECT_FALSE(is_live) << job << " has ended";
        ASSERT_TRUE(found.has_value()) << job << " has ended";
        EXPECT_EQ(found->state(), v1::JOB_STATE_CANCELLED);
        EXPECT_GE(coordinator.index->Events({.job = job, .until = 9'999, .newest = 99})->size(),
                  2u);
      } else {
        EXPECT_FALSE(is_live || found.has_value()) << job << " was removed";
      }
      if (found.has_value()) {
        EXPECT_EQ(coordinator.Submit(found->idempotency_key()), job) << "its key is known";
      }
    }
  }

  const TempDir dir;
  const Paths paths{dir.path()};
  const std::string index_file = paths.Root() + "/index.db";
  std::map<uint64_t, std::string> said;
};

TEST_F(FollowedJournalTest, AKillBetweenTheLogAndTheIndexForgetsNothingThatWasAnswered) {
  for (const bool takes_first : {false, true}) {
    for (const int dies_at : {1, 2, 3, 5, 8, 13, 21}) {
      LiveUntilKilled(dies_at, takes_first);
      ExpectNothingForgotten();
    }
  }
  EXPECT_GT(said.size(), 20u);
}

TEST_F(FollowedJournalTest, WhatTheIndexLacksIsThereBeforeAnybodyAsks) {
  LiveUntilKilled(2, false);  // the log has the end of job 2, perhaps more, and the index does not
  const auto following = FollowingIndex::Open(index_file);
  const uint64_t before = *following->Position();
  auto log = OpenLog(paths);
  const auto journal = *FollowJournal(std::move(log), {following.get()});
  EXPECT_GT(*following->Position(), before);
  EXPECT_EQ(*following->Position(), Replay(*journal)->events.back());
}

// Holds its turns until it may take them.
class SlowIndex final : public Projection {
 public:
  explicit SlowIndex(const std::string& path) : index_(FollowingIndex::Open(path)) {}
  std::string Place() const override { return index_->Place(); }
  absl::StatusOr<uint64_t> Position() override { return index_->Position(); }
  absl::Status Take(const std::vector<JournalRecord>& turns) override {
    if (!may_take) return absl::UnavailableError("not yet");
    return index_->Take(turns);
  }
  std::atomic<bool> may_take = false;

 private:
  const std::unique_ptr<FollowingIndex> index_;
};

TEST_F(FollowedJournalTest, ASnapshotAndTheAnswersWaitForASlowIndex) {
  SlowIndex slow(index_file);
  auto log = OpenLog(paths);
  Journal* const inner = log.get();
  OpenedJournal opened(*FollowJournal(std::move(log), {&slow}));
  opened.Start();
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 7, "a"), ReasonEvent(2, 7, "b")});
  record.facts = FactsOf({Finished(7, "red-fox-7", "key")});
  v1::Snapshot snapshot;
  snapshot.set_format(1);
  snapshot.set_seq(2);
  record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
  opened.journal->Append(std::move(record));
  EXPECT_EQ(opened.WaitForStuck().message(), "not yet") << "those who wait are told why";
  while (inner->PendingBytes() > 0) std::this_thread::yield();
  EXPECT_GT(opened.journal->PendingBytes(), 0u);
  const auto reader = OpenLog(paths);
  EXPECT_EQ(Replay(*reader)->snapshot, 0u) << "the index could not catch up after it";
  EXPECT_EQ(Replay(*reader)->events.size(), 2u);
}

TEST_F(FollowedJournalTest, TheSnapshotIsInTheLogOnceTheIndexHasItsTurns) {
  const auto following = FollowingIndex::Open(index_file);
  {
    OpenedJournal opened(*FollowJournal(OpenLog(paths), {following.get()}));
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 7, "a"), ReasonEvent(2, 8, "b")});
    v1::Snapshot snapshot;
    snapshot.set_format(1);
    snapshot.set_seq(2);
    record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
    opened.journal->Append(RecordOf(2, {ReasonEvent(3, 8, "c")}));
    ASSERT_TRUE(opened.WaitFor(2).ok());
    ASSERT_TRUE(opened.journal->Stop().ok());
  }
  const auto replayed = *Replay(*OpenLog(paths));
  EXPECT_EQ(replayed.snapshot, 2u);
  EXPECT_EQ(replayed.events, (std::vector<uint64_t>{3}));
}

// A restart replays the job's end, whose record still had the checkpoint.
TEST_F(FollowedJournalTest, WhatWasRecordedAgainOfAFinishedJobStaysSoAfterAKill) {
  const pid_t child = fork();
  if (child == 0) {
    RunningLoop running(*OpenSqliteJournal(paths), paths.Database());
    const uint64_t job = running.Submit("key");
    running.Cancel(job);
    auto record = std::make_shared<v1::JobRecord>(**running.index->Find(job));
    record->set_reason("recorded again");
    running.loop.RewriteFinished(record, [] { kill(getpid(), SIGKILL); });
    pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  RunningLoop again(*OpenSqliteJournal(paths), paths.Database());
  EXPECT_TRUE(again.Live().empty()) << "answered once its first turn is durable";
  EXPECT_EQ((*again.index->Find(1))->reason(), "recorded again");
}

TEST_F(FollowedJournalTest, AnIndexThatIsNotTheJournalsIsRefused) {
  LiveUntilKilled(8, true);
  const auto following = FollowingIndex::Open(index_file);
  const auto open = [&](const Paths& where) {
    return FollowJournal(OpenLog(where), {following.get()}).status();
  };
  const TempDir other;
  const absl::Status ahead = open(Paths(other.path()));
  EXPECT_EQ(common::CodeOf(ahead), "JC1602") << ahead;
  EXPECT_NE(ahead.message().find("the journal ends at event 0"), std::string::npos) << ahead;
  { RunningLoop(paths, *following, index_file).Submit("last"); }  // ends with a snapshot
  ASSERT_EQ(unlink(index_file.c_str()), 0);
  const auto fresh = FollowingIndex::Open(index_file);
  const absl::Status behind = FollowJournal(OpenLog(paths), {fresh.get()}).status();
  EXPECT_EQ(common::CodeOf(behind), "JC1602") << behind;
  EXPECT_NE(behind.message().find("only keeps those after"), std::string::npos) << behind;
}

}  // namespace
}  // namespace muster::coordinator
