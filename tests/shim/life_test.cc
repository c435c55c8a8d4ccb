// How ranks start, exit and are reported: exits, signals, exec failures, stops, the exit record,
// adoption.
#include <sys/file.h>

#include "shim_fixture.h"
#include "worker/launch/leftovers.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::worker {
namespace {

using common::ExecStage;
using common::Stream;

class ShimLife : public ShimFixture {};

TEST_F(ShimLife, TwoRanksStartEndAndAreRecorded) {
  AddRank({"test_rank", "exit", "0"});
  AddRank({"test_rank", "exit", "7"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(started_.size(), 2u);
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  EXPECT_EQ(exits_.at(1).exit_code, 7);
  EXPECT_GT(exits_.at(1).since_start_us, 0);
  EXPECT_GT(exits_.at(1).wall_ms, 1'600'000'000'000);
  EXPECT_EQ(closed_.size(), 4u);
  EXPECT_EQ(how_, "empty");
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->job, 7u);
  EXPECT_EQ(record->attempt, 2u);
  EXPECT_EQ(record->mark, launch_.mark);
  EXPECT_EQ(record->how, "empty");
  ASSERT_EQ(record->exits.size(), 2u);
  EXPECT_EQ(record->exits[1].exit_code, 7);
  EXPECT_EQ(record->exits[1].pid, started_.at(1).pid);
  EXPECT_EQ(record->streams.size(), 4u);
  EXPECT_FALSE(ShimLives(launch_.attempt_dir));
  EXPECT_FALSE(common::Exists(launch_.socket_path));
}

TEST_F(ShimLife, ASignalIsToldAsASignalAndTheLastWordsAreInTheSpoolByThen) {
  AddRank({"test_rank", "say-then-die"});
  AddRank({"test_rank", "sleep"});
  Spawn();
  ASSERT_TRUE(Until([this] { return exits_.count(0) > 0; }));
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  EXPECT_FALSE(exits_.at(0).out_of_memory);
  EXPECT_FALSE(exits_.at(0).stopped);
  EXPECT_EQ(Spool(0, Stream::kStderr), "last words\n");
  EXPECT_EQ(exits_.count(1), 0u);
  shim_->Stop(10'000);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(1).signal, SIGTERM);
  EXPECT_TRUE(exits_.at(1).stopped);
}

// A runtime of several threads hands on its child before it can be waited for itself: here it stays
// until that child, which is the shim's by then, has been over for a while.
TEST_F(ShimLife, AContainerThatIsOverBeforeItsRuntimeEndsAsItsProgramDid) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a container's mounts";
  launch_.container.runtime = root_ + "/runtime";
  launch_.container.image_root = root_ + "/image";
  launch_.container.directory = launch_.attempt_dir + "/containers";
  ASSERT_TRUE(common::MakeDirectories(launch_.container.image_root).ok());
  ASSERT_TRUE(common::MakeDirectories(common::BundlePath(launch_.container, 0)).ok());
  ASSERT_TRUE(
      common::WriteFileDurably(launch_.container.directory + "/" + common::kNeededName, "").ok());
  ASSERT_TRUE(common::WriteFileDurably(launch_.container.runtime,
                                       R"(#!/bin/sh
while [ "$1" != --pid-file ]; do shift; done
(GO="$2.go" sh -c 'until [ -e $GO ]; do sleep 0.01; done; exit 7' & echo $! >"$2")
: >"$2.go"  # the shell between them has no chance to wait for it
rounds=30
while [ $rounds -gt 0 ] && kill -0 $(cat "$2"); do sleep 0.01; rounds=$((rounds - 1)); done
exit 0
)",
                                       0700)
                  .ok());
  AddRank({"/bin/true"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 7);
  EXPECT_EQ(exits_.at(0).exec_errno, 0);
  EXPECT_EQ(how_, "empty");
}

TEST_F(ShimLife, ARankThatEndsWellLeavesTheOthersAlone) {
  AddRank({"test_rank", "exit", "0"});
  AddRank({"test_rank", "sleep"});
  Spawn();
  ASSERT_TRUE(Until([this] { return exits_.count(0) > 0 && started_.count(1) > 0; }));
  EXPECT_TRUE(Alive(started_.at(1).pid));
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
  // With no grace at all, the rank may see either signal first.
  EXPECT_TRUE(exits_.at(1).signal == SIGKILL || exits_.at(1).signal == SIGTERM);
}

TEST_F(ShimLife, ARankThatIgnoresSigtermIsKilledWhenItsGraceIsOver) {
  AddRank({"test_rank", "ignore-term"});
  AddRank({"test_rank", "term-exits-0"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n" && Spool(1) == "ready\n"; }));
  const int64_t begin = common::MonotonicMicros();
  shim_->Stop(300);
  ASSERT_TRUE(UntilGone());
  const int64_t took_ms = (common::MonotonicMicros() - begin) / 1000;
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_EQ(exits_.at(1).exit_code, 0);
  EXPECT_EQ(exits_.at(1).signal, 0);
  EXPECT_GE(took_ms, 300);
  EXPECT_LT(took_ms, 1500);
}

TEST_F(ShimLife, AStoppedRankStillGetsItsSigterm) {
  AddRank({"test_rank", "term-exits-0"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n" && started_.count(0) > 0; }));
  shim_->Signal(SIGSTOP);
  ASSERT_TRUE(Until([this] {
    common::ProcessStat stat;
    return common::ReadProcessStat(started_.at(0).pid, &stat) && stat.state == 'T';
  }));
  shim_->Stop(10'000);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  EXPECT_EQ(exits_.at(0).signal, 0);
}

TEST_F(ShimLife, ALaterStopShortensTheGraceAndNeverLengthensIt) {
  AddRank({"test_rank", "ignore-term"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n"; }));
  shim_->Stop(600'000);
  shim_->Stop(10);
  shim_->Stop(600'000);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
}

TEST_F(ShimLife, SigtermToTheShimIsAStopWithGrace) {
  launch_.term_grace_ms = 10'000;
  AddRank({"test_rank", "term-exits-0"});
  Spawn();
  ASSERT_TRUE(
      Until([this] { return Spool(0) == "ready\n" && shim_->pid() > 0 && started_.count(0) > 0; }));
  kill(shim_->pid(), SIGTERM);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  EXPECT_TRUE(exits_.at(0).stopped);
}

TEST_F(ShimLife, TheFenceHoldsFromTheFirstMomentAlsoWhenTheWorkerNeverSpeaks) {
  launch_.term_grace_ms = 10'000;
  launch_.fence_mono_ms = common::MonotonicMicros() / 1000 + 1;
  AddRank({"sleep", "1000"});
  launch_.ranks[0].program = "/bin/sleep";
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGTERM);
  EXPECT_TRUE(exits_.at(0).stopped);
}

TEST_F(ShimLife, AnAttemptWithoutStateFileIsFoundByTheTagOfItsNode) {
  launch_.mark = NewAttemptMark(7, 2, NodeTag("unix:" + root_, "n1"));
  AddRank({"test_rank", "ignore-term"});
  Spawn();
  ASSERT_TRUE(
      Until([this] { return Spool(0) == "ready\n" && shim_->pid() > 0 && started_.count(0) > 0; }));
  const pid_t pids[] = {shim_->pid(), static_cast<pid_t>(started_.at(0).pid)};
  const auto end = [](const std::string& tag) {
    return EndMarked(
        {}, [&tag](const AttemptMark& mark) { return mark.tag == tag; }, 5'000);
  };
  ASSERT_TRUE(end(NodeTag("unix:" + root_, "n2")).ok());
  EXPECT_TRUE(Alive(pids[0]) && Alive(pids[1])) << "another node's attempts are spared";
  const auto ended = end(NodeTag("unix:" + root_, "n1"));
  ASSERT_TRUE(ended.ok());
  ASSERT_EQ(ended->size(), 1u);
  EXPECT_EQ(ended->front().job, 7u);
  EXPECT_EQ(ended->front().attempt, 2u);
  EXPECT_FALSE(Alive(pids[0]) || Alive(pids[1]));
}

TEST(Marks, OnlyWhatAWorkerMakesIsAMark) {
  const std::string good = NewAttemptMark(18446744073709551615u, 4294967295u, NodeTag("c", "n"));
  ASSERT_TRUE(ParseMark(good).has_value());
  EXPECT_EQ(ParseMark(good)->tag, NodeTag("c", "n"));
  for (const std::string& bad :
       {std::string(""), good + "0", good.substr(1 + good.rfind('-')), "x" + good, "/../" + good,
        "1-0-../../../../../../-" + NodeTag("c", "n")}) {
    EXPECT_FALSE(ParseMark(bad).has_value()) << bad;
  }
}

TEST_F(ShimFixture, AFlippedOrShortenedLaunchFileIsNoticedAndAnOlderOneIsRead) {
  AddRank({"test_rank", "x"});
  const std::string bytes = common::EncodeShimLaunch(launch_);
  common::ShimLaunch read;
  ASSERT_TRUE(common::DecodeShimLaunch(bytes, &read));
  EXPECT_EQ(read.mark, launch_.mark);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_FALSE(common::DecodeShimLaunch(flipped, &read)) << at;
    EXPECT_FALSE(common::DecodeShimLaunch(bytes.substr(0, at), &read)) << at;
  }
  // Version 2 had no checksum and no spool_patience_ms, which comes after a magic of 13 bytes, six
  // texts and nine numbers. Each text is preceded by its length.
  size_t patience = 13 + (1 + 6 + 9) * sizeof(uint64_t);
  for (const std::string* text :
       {&launch_.mark, &launch_.attempt_dir, &launch_.spool_dir, &launch_.socket_path,
        &launch_.cgroup_dir, &launch_.freezer_dir}) {
    patience += text->size();
  }
  // Version 5 added two fields to each rank and one at the end, version 6 four of the account and
  // eight of the sandbox, version 7 five of the container, version 8 four, version 9 two, all empty here.
  std::string older =
      bytes.substr(0, bytes.size() - (1 + 2 + 1 + 4 + 8 + 5 + 4 + 2) * sizeof(uint64_t));
  older.erase(patience, sizeof(uint64_t));
  older[21] = 2;  // after the magic and its length
  ASSERT_TRUE(common::DecodeShimLaunch(older, &read));
  EXPECT_EQ(read.ranks.at(0).argv, launch_.ranks.at(0).argv);
}

// A worker that is there reads them first, to hide them in what it reports.
TEST_F(ShimLife, SecretsEndWithAnAttemptThatHasNoWorker) {
  AddRank({"/bin/sh", "-c", "until [ -e " + root_ + "/go ]; do sleep 0.01; done"});
  launch_.secrets_dir = root_ + "/secrets/7-2";
  const auto write = [&] {
    ASSERT_TRUE(common::MakeDirectories(launch_.secrets_dir).ok());
    ASSERT_TRUE(common::WriteFileDurably(launch_.secrets_dir + "/key", "value", 0400).ok());
  };
  write();
  Spawn();
  ASSERT_TRUE(Until([this] { return started_.count(0) > 0; }));
  const pid_t shim = shim_->pid();
  shim_.reset();
  ASSERT_TRUE(common::WriteFileDurably(root_ + "/go", "").ok());
  ASSERT_TRUE(Until([this, shim] { return !Alive(shim); }));
  EXPECT_FALSE(common::Exists(root_ + "/secrets"));

  write();
  unlink(LaunchPath(launch_.attempt_dir).c_str());
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_TRUE(common::Exists(launch_.secrets_dir + "/key"));
}

TEST_F(ShimLife, AShimSaysThatItIsThere) {
  AddRank({"sleep", "1000"});
  launch_.ranks[0].program = "/bin/sleep";
  Spawn();
  ASSERT_TRUE(Until([this] { return shim_->pid() > 0 && !started_.empty(); }));
  shim_->TakeHeard();
  ASSERT_TRUE(shim_->Ping());
  EXPECT_TRUE(Until([this] { return shim_->TakeHeard(); }));
}

TEST_F(ShimLife, UserSignalsReachTheRank) {
  AddRank({"test_rank", "usr1"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n"; }));
  shim_->Signal(SIGUSR1);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(Spool(0), "ready\nusr1\n");
  EXPECT_EQ(exits_.at(0).exit_code, 0);
}

TEST_F(ShimLife, ACommandThatCannotBeExecutedIsToldWithItsErrno) {
  AddRank({root_ + "/no-such-program"});
  AddRank({"/etc/passwd"});
  AddRank({"test_rank", "exit", "0"});
  launch_.ranks[2].workdir = root_ + "/nowhere";
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_TRUE(started_.empty());
  EXPECT_EQ(exits_.at(0).exit_code, 127);
  EXPECT_EQ(exits_.at(0).exec_errno, ENOENT);
  EXPECT_EQ(exits_.at(0).exec_stage, ExecStage::kExec);
  EXPECT_EQ(exits_.at(1).exit_code, 126);
  EXPECT_EQ(exits_.at(1).exec_errno, EACCES);
  EXPECT_EQ(exits_.at(2).exec_stage, ExecStage::kWorkdir);
  EXPECT_EQ(DescribeLaunchError(exits_.at(0), launch_.ranks[0], "n1"),
            "node n1: cannot execute " + root_ +
                "/no-such-program: No such file or directory; fix: correct the command, or install "
                "it on that node");
}

TEST_F(ShimLife, AScriptWithoutAnInterpreterLineRunsInAShell) {
  ASSERT_TRUE(common::WriteFileDurably(root_ + "/script", "echo $0 $1\nexit 5\n", 0755).ok());
  AddRank({root_ + "/script", "word"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 5);
  EXPECT_EQ(Spool(0), root_ + "/script word\n");
}

TEST_F(ShimLife, ARankInheritsThreeDescriptorsAndNothingElse) {
  auto held = PortHolder::HoldExactly(0);
  ASSERT_TRUE(held.ok()) << held.status();
  AddRank({"test_rank", "descriptors"});
  Spawn({held->socket.get()});
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 3);
}

TEST_F(ShimLife, AHeldPortIsForARankThatReusesAddressesAndForNobodyElse) {
  PortHolder holder(PortRange{}, static_cast<uint64_t>(getpid()));
  auto held = holder.Hold(1, false);
  ASSERT_TRUE(held.ok()) << held.status();
  const std::string port = std::to_string(held->front().port);
  AddRank({"test_rank", "listen", port, "plain"});
  AddRank({"test_rank", "listen", port, "reuse"});
  Spawn({held->front().socket.get()});
  held->clear();  // only the shim holds it now
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, EADDRINUSE);
  EXPECT_EQ(exits_.at(1).exit_code, 0);
}

TEST_F(ShimLife, AnAttemptIsNeverLaunchedTwice) {
  AddRank({"test_rank", "exit", "0"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  const auto again = ShimClient::Spawn(SiblingBinary("../muster-shim"), launch_, {});
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ShimLife, AMissingShimBinaryIsOneErrorAndMayBeTriedAgain) {
  AddRank({"test_rank", "exit", "0"});
  const auto shim = ShimClient::Spawn(root_ + "/no-shim", launch_, {});
  EXPECT_EQ(shim.status().code(), absl::StatusCode::kNotFound);
  Spawn();
  EXPECT_TRUE(UntilGone());
}

TEST_F(ShimLife, ASpoolThatCannotBeMadeIsTheFailureInTheExitRecord) {
  launch_.spool_dir = root_ + "/missing/spool";
  AddRank({"test_rank", "exit", "0"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->failure.rfind("cannot create the spool", 0), 0u) << record->failure;
  EXPECT_TRUE(record->exits.empty());
  EXPECT_TRUE(started_.empty());
}

TEST_F(ShimLife, AReturningWorkerHearsTheWholeStory) {
  AddRank({"test_rank", "exit", "3"});
  AddRank({"test_rank", "ignore-term"});
  Spawn();
  const pid_t shim_pid = shim_->pid();
  ASSERT_TRUE(Until([this] { return exits_.count(0) > 0 && started_.count(1) > 0; }));
  const std::map<uint32_t, RankStarted> before = started_;
  shim_.reset();  // the worker is gone
  started_.clear();
  exits_.clear();
  auto adopted = ShimClient::Adopt(launch_.attempt_dir);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  shim_ = *std::move(adopted);
  ASSERT_TRUE(Until([this] { return exits_.count(0) > 0 && started_.count(1) > 0; }));
  EXPECT_EQ(shim_->pid(), shim_pid);
  EXPECT_EQ(exits_.at(0).exit_code, 3);
  EXPECT_EQ(started_.at(1).pid, before.at(1).pid);
  EXPECT_EQ(started_.at(1).start_time, before.at(1).start_time);
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
  EXPECT_TRUE(exits_.at(1).stopped);
  waitpid(shim_pid, nullptr, 0);
}

TEST_F(ShimLife, TheNewestWorkerWins) {
  AddRank({"test_rank", "sleep"});
  Spawn();
  ASSERT_TRUE(Until([this] { return started_.count(0) > 0; }));
  std::unique_ptr<ShimClient> old = std::move(shim_);
  auto adopted = ShimClient::Adopt(launch_.attempt_dir);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  shim_ = *std::move(adopted);
  started_.clear();
  ASSERT_TRUE(Until([this] { return started_.count(0) > 0; }));
  ASSERT_TRUE(old->Read().ok());
  EXPECT_TRUE(old->gone());
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
}

TEST_F(ShimLife, AShimThatIsGoneCannotBeAdopted) {
  AddRank({"test_rank", "exit", "0"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(ShimClient::Adopt(launch_.attempt_dir).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ShimClient::Adopt(root_ + "/never").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShimLife, AFenceStopsTheRanksAlsoWhenTheWorkerIsDead) {
  AddRank({"test_rank", "term-exits-0"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n" && started_.count(0) > 0; }));
  const pid_t shim_pid = shim_->pid();
  const int64_t now_ms = common::MonotonicMicros() / 1000;
  shim_->MoveFence(now_ms + 100);
  shim_.reset();
  ASSERT_TRUE(Until([this] { return !ShimLives(launch_.attempt_dir); }));
  EXPECT_GE(common::MonotonicMicros() / 1000, now_ms + 100);
  waitpid(shim_pid, nullptr, 0);
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->exits.at(0).stopped);
  EXPECT_EQ(record->exits.at(0).exit_code, 0);
}

// A node that stood still past the end of the grace: the ranks may be running elsewhere.
TEST_F(ShimLife, AFenceWhoseGraceIsOverKillsWithoutAsking) {
  AddRank({"test_rank", "term-exits-0"});
  launch_.term_grace_ms = 5'000;
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n"; }));
  shim_->MoveFence(common::MonotonicMicros() / 1000 - 5'000);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_TRUE(exits_.at(0).stopped);
}

TEST_F(ShimLife, AFenceGivesOnlyWhatIsLeftOfItsGrace) {
  AddRank({"test_rank", "ignore-term"});
  launch_.term_grace_ms = 30'000;  // longer than any wait here, shorter than this host has been up
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n"; }));
  shim_->MoveFence(common::MonotonicMicros() / 1000 - 29'900);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
}

// As with a cancel that gave it an hour, on a node that then lost its contact.
TEST_F(ShimLife, AStopWithALongerGraceDoesNotOutliveTheFence) {
  AddRank({"test_rank", "ignore-term"});
  launch_.term_grace_ms = 100;
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n"; }));
  shim_->Stop(3'600'000);
  shim_->MoveFence(common::MonotonicMicros() / 1000);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
}

TEST_F(ShimLife, AnAttemptWhoseFenceIsOverIsNotStarted) {
  AddRank({"test_rank", "lines", "1", (root_ + "/ran").c_str()});
  launch_.term_grace_ms = 1'000;
  launch_.fence_mono_ms = common::MonotonicMicros() / 1000 - 1'000;
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(how_, "empty");
  EXPECT_TRUE(exits_.at(0).stopped);
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_NE(access((root_ + "/ran").c_str(), F_OK), 0);
}

TEST_F(ShimLife, AFenceThatIsTakenAwayStopsNothing) {
  AddRank({"test_rank", "usr1"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n"; }));
  shim_->MoveFence(common::MonotonicMicros() / 1000 + 3'600'000);
  shim_->MoveFence(0);
  shim_->Signal(SIGUSR1);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  EXPECT_FALSE(exits_.at(0).stopped);
}

TEST_F(ShimLife, EndsThatHappenWhileNoWorkerIsThereAreInTheRecord) {
  AddRank({"test_rank", "term-exits-0"});
  AddRank({"test_rank", "exit", "4"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n" && exits_.count(1) > 0; }));
  const pid_t shim_pid = shim_->pid();
  shim_.reset();
  kill(shim_pid, SIGTERM);
  ASSERT_TRUE(Until([this] { return !ShimLives(launch_.attempt_dir); }));
  waitpid(shim_pid, nullptr, 0);
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->exits.at(0).exit_code, 0);
  EXPECT_TRUE(record->exits.at(0).stopped);
  EXPECT_EQ(record->exits.at(1).exit_code, 4);
  EXPECT_EQ(record->how, "empty");
}

}  // namespace
}  // namespace muster::worker
