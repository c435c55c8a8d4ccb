// A job's code and setup on one node, from objects behind a fake door.
#include <sys/stat.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "common/base/status.h"
#include "tests/tree/tree_fixture.h"
#include "worker/launch/prepared_place.h"
#include "worker/preparation/preparation_steps.h"

namespace muster::worker {
namespace {

class PreparationTest : public tree::TreeCase {
 protected:
  void SetUp() override {
    TreeCase::SetUp();
    Write("train.py", "print('step')\n");
    Write("tools/run.sh", "#!/bin/sh\necho ran\n", 0755);
    Write("large", std::string(3 * tree::kOwnObjectBytes, 'l'));
    paths_ = Paths(base_ + "/state", base_ + "/state/run");
    ASSERT_TRUE(common::MakeDirectories(paths_.Attempts()).ok());
    spec_.add_command("./run.sh");
    spec_.set_workdir("tools");
    (*spec_.mutable_env())["PATH"] = "/usr/bin:/bin";
    (*spec_.mutable_env())["COLOR"] = "red";
    UseTree();
    Restart();
  }

  // As jobctl does: the tree as it is now.
  void UseTree() {
    snapshot_ = *Take();
    Upload(snapshot_);
    const std::string manifest = tree::Encode(snapshot_.manifest);
    const std::string placement =
        tree::EncodePlacement(snapshot_.manifest, snapshot_.identity, snapshot_.placement);
    store_[common::Sha256Hex(manifest)] = manifest;
    store_[common::Sha256Hex(placement)] = placement;
    v1::CodeTree& code = *spec_.mutable_code();
    code.set_tree(common::Sha256Hex(manifest));
    code.set_manifest_bytes(manifest.size());
    code.set_placement(common::Sha256Hex(placement));
    code.set_placement_bytes(placement.size());
  }

  // A new worker with the same state directory.
  void Restart(uint64_t cache_bytes = kCodeCacheBytes, int64_t setup_timeout_ms = 60'000) {
    context_ = std::make_unique<PreparationContext>(
        PreparationSetup{.node = "node1",
                         .paths = paths_,
                         .run_as = {},
                         .isolation = {},
                         .device_kinds = {},
                         .shim_binary = {},
                         .cache_bytes = cache_bytes,
                         .setup_timeout_ms = setup_timeout_ms},
        [this](const Blob& blob, const AttemptKey&, int fd, const std::function<bool()>& cancelled,
               const std::function<void(uint64_t)>& progress) -> absl::Status {
          std::lock_guard<std::mutex> lock(mutex_);
          if (cancelled()) return absl::CancelledError("stopped");
          ++fetches_[blob.sha256];
          const auto found = store_.find(blob.sha256);
          if (found == store_.end()) return absl::DataLossError("the coordinator has lost it");
          EXPECT_EQ(found->second.size(), blob.size);
          RETURN_IF_ERROR(common::WriteAll(fd, found->second));
          progress(blob.size);
          return absl::OkStatus();
        });
  }

  PreparedNode Prepare(uint32_t attempt, std::atomic<bool>* stop = nullptr) {
    v1::PrepareAttempt order;
    *order.mutable_spec() = spec_;
    const Progress progress{.key = {7, attempt},
                            .say =
                                [this](const std::string& text) {
                                  std::lock_guard<std::mutex> lock(said_mutex_);
                                  said_.push_back(text);
                                },
                            .stopped = [stop] { return stop != nullptr && *stop; }};
    return PrepareNode(*context_, order, progress);
  }
  void SetUpWith(const std::string& script) {
    spec_.clear_setup();
    for (const std::string& word : {std::string("sh"), std::string("-c"), script})
      spec_.add_setup(word);
  }
  std::string Code(uint32_t attempt) const { return paths_.AttemptCode({7, attempt}); }
  std::string InCode(uint32_t attempt, const std::string& name) const {
    return common::ReadFile(Code(attempt) + "/" + name).value_or("(none)");
  }
  size_t Entries(const std::string& directory) const {
    return common::ListDirectory(directory)->size();
  }

  Paths paths_;
  v1::JobSpec spec_;
  tree::Snapshot snapshot_;
  std::mutex mutex_;
  std::map<std::string, int> fetches_;
  std::mutex said_mutex_;
  std::vector<std::string> said_;
  std::unique_ptr<PreparationContext> context_;
};

TEST_F(PreparationTest, EachAttemptGetsItsOwnCopyAndTheObjectsAreFetchedOnce) {
  const PreparedNode first = Prepare(0);
  ASSERT_EQ(first.failure, "");
  EXPECT_GT(first.preparation.fetched_bytes(), 3 * tree::kOwnObjectBytes);
  EXPECT_EQ(first.command.workdir, Code(0) + "/tools");
  EXPECT_EQ(InCode(0, "train.py"), "print('step')\n");
  struct stat info {};
  ASSERT_EQ(stat((Code(0) + "/tools/run.sh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  // What an attempt changes, no other sees.
  ASSERT_TRUE(common::WriteFileDurably(Code(0) + "/train.py", "changed").ok());
  const PreparedNode second = Prepare(1);
  ASSERT_EQ(second.failure, "");
  EXPECT_EQ(second.preparation.fetched_bytes(), 0u);
  EXPECT_EQ(InCode(1, "train.py"), "print('step')\n");
  for (const auto& [name, count] : fetches_) EXPECT_EQ(count, 1) << name;
  EXPECT_EQ(Entries(paths_.CodeDir() + "/new"), 0u) << "objects go with the last file";
  EXPECT_NE(std::find_if(said_.begin(), said_.end(),
                         [](const std::string& text) { return text.find(" of ") != text.npos; }),
            said_.end());
}

TEST_F(PreparationTest, AttemptsThatWantTheSameTreeAtOnceShareIt) {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (uint32_t attempt = 0; attempt < 4; ++attempt) {
    threads.emplace_back([&, attempt] { failures += Prepare(attempt).failure.empty() ? 0 : 1; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (const auto& [name, count] : fetches_) EXPECT_EQ(count, 1) << name;
}

TEST_F(PreparationTest, AnotherProjectDoesNotUseWhatOneHasCached) {
  ASSERT_EQ(Prepare(0).failure, "");
  spec_.set_project("other");
  ASSERT_EQ(Prepare(1).failure, "");
  for (const auto& [name, count] : fetches_) EXPECT_EQ(count, 2) << name;
  struct stat info {};
  ASSERT_EQ(stat(paths_.CodeTrees().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(PreparationTest, ADamagedTreeInTheCacheIsUnpackedAgain) {
  ASSERT_EQ(Prepare(0).failure, "");
  const std::string entry = context_->cache.TreePath("default", spec_.code().tree());
  ASSERT_EQ(truncate((entry + "/tree/train.py").c_str(), 1), 0);
  ASSERT_EQ(Prepare(1).failure, "");
  EXPECT_EQ(InCode(1, "train.py"), "print('step')\n");
}

TEST_F(PreparationTest, WhatAKilledWorkerLeftHalfMadeIsMadeAgain) {
  ASSERT_EQ(Prepare(0).failure, "");
  ASSERT_TRUE(common::MakeDirectories(paths_.CodeDir() + "/new/1/tree/half").ok());
  ASSERT_TRUE(common::WriteFileDurably(Code(0) + "/left-over", "x").ok());
  Restart();
  ASSERT_EQ(Prepare(0).failure, "");
  EXPECT_EQ(InCode(0, "left-over"), "(none)");
  EXPECT_EQ(Entries(paths_.CodeDir() + "/new"), 0u);
}

TEST_F(PreparationTest, AnObjectThatIsGoneWouldFailAgainAndTheErrorNamesTheFix) {
  store_.erase(tree::Hex(snapshot_.placement.objects.front().name));
  const PreparedNode failed = Prepare(0);
  EXPECT_TRUE(failed.would_fail_again);
  EXPECT_NE(failed.failure.find("node node1 cannot fetch the job's code"), std::string::npos)
      << failed.failure;
  EXPECT_NE(failed.failure.find("fix: submit the job again"), std::string::npos);
  EXPECT_EQ(Entries(paths_.CodeTrees()), 0u);
}

TEST_F(PreparationTest, AWorkdirThatTheTreeDoesNotHaveIsNamed) {
  spec_.set_workdir("no/such");
  const PreparedNode failed = Prepare(0);
  EXPECT_TRUE(failed.would_fail_again);
  EXPECT_NE(failed.failure.find("the job's code has no directory no/such"), std::string::npos);
}

TEST_F(PreparationTest, AStoppedPreparationLeavesNothing) {
  std::atomic<bool> stop = true;
  EXPECT_TRUE(Prepare(0, &stop).stopped);
  EXPECT_EQ(Entries(paths_.CodeTrees()), 0u);
  EXPECT_FALSE(common::Exists(Code(0)));
}

TEST_F(PreparationTest, NamesFromElsewhereAreCheckedBeforeTheyBecomePaths) {
  spec_.mutable_code()->set_tree("../../etc");
  EXPECT_NE(Prepare(0).failure.find("not SHA-256"), std::string::npos);
}

// ---------------------------------------------------------------- setup

TEST_F(PreparationTest, SetupRunsOncePerContentAndEnvironment) {
  SetUpWith("echo x >> " + base_ +
            "/ran; echo $COLOR > built; mkdir -p $MUSTER_SETUP_DIR/bin; "
            "echo installed");
  const PreparedNode first = Prepare(0);
  ASSERT_EQ(first.failure, "");
  EXPECT_TRUE(first.preparation.ran_setup());
  EXPECT_EQ(first.preparation.setup_output(), "installed\n");
  EXPECT_EQ(InCode(0, "tools/built"), "red\n") << "an attempt gets the tree as setup left it";
  (*spec_.mutable_env())["SSH_TTY"] = "/dev/pts/9";  // of another login
  const PreparedNode second = Prepare(1);
  EXPECT_FALSE(second.preparation.ran_setup());
  EXPECT_EQ(second.preparation.setup_output(), "installed\n");
  EXPECT_EQ(*common::ReadFile(base_ + "/ran"), "x\n");
  (*spec_.mutable_env())["COLOR"] = "blue";
  ASSERT_EQ(Prepare(2).failure, "");
  EXPECT_EQ(InCode(2, "tools/built"), "blue\n");
  EXPECT_EQ(*common::ReadFile(base_ + "/ran"), "x\nx\n");
}

TEST_F(PreparationTest, RanksSeeWhatSetupInstalled) {
  SetUpWith("mkdir $MUSTER_SETUP_DIR/bin; ln -s /bin/true $MUSTER_SETUP_DIR/bin/trainer");
  PreparedNode done = Prepare(0);
  ASSERT_EQ(done.failure, "");
  common::RankLaunch rank;
  rank.env = {"PATH=/bin"};
  const PreparedPlace place = PlaceOf(paths_, {7, 0});
  EnterPlace(place, &rank);
  EXPECT_EQ(rank.env[0], "PATH=" + place.setup_dir + "/bin:/bin");
  EXPECT_EQ(rank.env[1], "MUSTER_SETUP_DIR=" + place.setup_dir);
  EXPECT_TRUE(common::Exists(place.setup_dir + "/bin"));
}

TEST_F(PreparationTest, AFailedSetupIsToldWithItsLastLinesAndIsNotKept) {
  SetUpWith("echo x >> " + base_ + "/ran; echo no wheel for torch >&2; exit 2");
  for (int time = 0; time < 2; ++time) {
    const PreparedNode failed = Prepare(0);
    EXPECT_TRUE(failed.would_fail_again);
    EXPECT_TRUE(failed.failure.starts_with("setup failed on node1 with exit code 2 after "))
        << failed.failure;
    EXPECT_NE(failed.failure.find(": no wheel for torch; fix: "), std::string::npos);
    EXPECT_TRUE(failed.preparation.setup_failed());
    EXPECT_EQ(failed.preparation.setup_output(), "no wheel for torch\n");
  }
  EXPECT_EQ(*common::ReadFile(base_ + "/ran"), "x\nx\n");
  EXPECT_EQ(Entries(paths_.CodeSetups()), 0u);
}

TEST_F(PreparationTest, ASetupThatTakesTooLongIsKilled) {
  Restart(kCodeCacheBytes, /*setup_timeout_ms=*/300);
  SetUpWith("sleep 1000");
  EXPECT_NE(Prepare(0).failure.find("took longer than 300ms"), std::string::npos);
}

TEST_F(PreparationTest, AStopKillsSetupAndWhatLeftItsSession) {
  const std::string file = base_ + "/pid";
  SetUpWith("setsid sleep 1000 & echo $! > " + file + ".new; mv " + file + ".new " + file +
            "; sleep 1000");
  std::atomic<bool> stop = false;
  std::thread stopper([&] {
    while (!common::Exists(file)) std::this_thread::yield();
    stop = true;
  });
  EXPECT_TRUE(Prepare(0, &stop).stopped);
  stopper.join();
  const pid_t left = std::stoi(*common::ReadFile(file));
  const std::string command =
      common::ReadFile("/proc/" + std::to_string(left) + "/cmdline").value_or("");
  EXPECT_EQ(command.find("sleep"), std::string::npos) << "it is still alive";
}

TEST_F(PreparationTest, SetupWithoutCodeRunsInAnEmptyDirectory) {
  spec_.clear_code();
  spec_.set_workdir("/");
  SetUpWith("ls > $MUSTER_SETUP_DIR/saw");
  const PreparedNode done = Prepare(0);
  ASSERT_EQ(done.failure, "");
  EXPECT_EQ(done.command.workdir, "/");
  EXPECT_FALSE(common::Exists(Code(0)));
  EXPECT_EQ(*common::ReadFile(PlaceOf(paths_, {7, 0}).setup_dir + "/saw"), "");
}

TEST_F(PreparationTest, AFullCacheForgetsWhatNoAttemptUses) {
  SetUpWith("echo a > $MUSTER_SETUP_DIR/a");
  Restart(/*cache_bytes=*/1);
  ASSERT_EQ(Prepare(0).failure, "");
  EXPECT_EQ(Entries(paths_.CodeSetups()), 1u) << "an attempt uses it";
  Write("train.py", "print('other')\n");
  UseTree();
  ASSERT_EQ(Prepare(1).failure, "");
  EXPECT_EQ(Entries(paths_.CodeSetups()), 2u);
  EXPECT_EQ(Entries(paths_.CodeTrees()), 1u) << "only the newest, which was just used";
  ASSERT_TRUE(common::RemoveTree(paths_.AttemptDir({7, 0})).ok());
  context_->cache.Collect();
  EXPECT_EQ(Entries(paths_.CodeSetups()), 1u);
  EXPECT_EQ(Entries(paths_.CodeTrees()), 0u);
}

}  // namespace
}  // namespace muster::worker
