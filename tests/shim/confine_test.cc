// Ranks with another account and in a sandbox, as they see themselves. Changing the account and the
// mounts takes root: skipped otherwise.
#include <sys/stat.h>

#include "absl/strings/str_split.h"
#include "common/files/plain_files.h"
#include "shim_fixture.h"

namespace muster::worker {
namespace {

constexpr uint32_t kUid = 12'345;  // needs no entry in the user database
constexpr uint32_t kGid = 23'456;

class ShimConfine : public ShimFixture {
 protected:
  void UseOtherAccount() {
    launch_.account = {true, kUid, kGid, {kGid, 34'567}};
    launch_.no_new_privs = true;
    launch_.sandbox.drops_capabilities = true;
    ASSERT_EQ(chmod(root_.c_str(), 0711), 0);
  }

  void UseOwnMounts() {
    launch_.sandbox.has_own_mounts = true;
    launch_.sandbox.temporary_dir = MakeDir("tmp");
    launch_.sandbox.shown_dirs = {MakeDir("checkpoints")};
    launch_.sandbox.kept_dirs = {MakeDir("work")};
    launch_.sandbox.hidden_dirs = {launch_.attempt_dir};
    for (common::RankLaunch& rank : launch_.ranks) rank.workdir = launch_.sandbox.kept_dirs[0];
  }

  // Below the attempt's, and the account's.
  std::string MakeDir(const std::string& name) {
    const std::string path = (name == "work" ? root_ : launch_.attempt_dir) + "/" + name;
    EXPECT_TRUE(common::MakeDirectories(path).ok());
    EXPECT_EQ(chown(path.c_str(), launch_.account.uid, launch_.account.gid), 0);
    return path;
  }

  void Run() {
    Spawn();
    ASSERT_TRUE(UntilGone());
  }

  // "CapEff" of /proc/self/status → "0000000000000000".
  std::string StatusOf(const std::string& name) const {
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(Spool(0), '\n'))) {
      const std::pair<std::string, std::string> words =
          absl::StrSplit(line, absl::MaxSplits(":\t", 1));
      if (words.first == name) return words.second;
    }
    return "(none)";
  }

  std::string Errors() const { return Spool(0, common::Stream::kStderr); }
};

class ShimConfineAsRoot : public ShimConfine {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may change the account";
    UseOtherAccount();
  }
};

TEST_F(ShimConfineAsRoot, ARankHasItsAccountAndNothingOfTheShims) {
  launch_.sandbox.filters_calls = true;
  AddRank({"/bin/cat", "/proc/self/status"});
  Run();
  EXPECT_EQ(StatusOf("Uid"), "12345\t12345\t12345\t12345");
  EXPECT_EQ(StatusOf("Gid"), "23456\t23456\t23456\t23456");
  EXPECT_EQ(StatusOf("Groups"), "23456 34567 ");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    EXPECT_EQ(StatusOf(set), "0000000000000000") << set;
  }
  EXPECT_EQ(StatusOf("NoNewPrivs"), "1");
  EXPECT_EQ(StatusOf("Seccomp"), "2");
}

TEST_F(ShimConfineAsRoot, ItCannotTakeTheAccountBackNorTouchTheShim) {
  AddRank({"test_rank", "take-back"});
  Run();
  EXPECT_EQ(Spool(0), "setuid EPERM\nsetgid EPERM\nsetgroups EPERM\nkill EPERM\nptrace EPERM\n");
}

TEST_F(ShimConfineAsRoot, ItMayOpenItsOwnOutput) {
  AddRank({"/bin/sh", "-c", "echo one >/dev/stdout; echo two >/dev/stderr"});
  Run();
  EXPECT_EQ(Spool(0), "one\n");
  EXPECT_EQ(Errors(), "two\n");
}

TEST_F(ShimConfineAsRoot, ItsFilesAndTheShimsStayApart) {
  AddRank({"/bin/sh", "-c",
           "cat " + LaunchPath(launch_.attempt_dir) + " " + launch_.socket_path + "; ls " +
               launch_.spool_dir + "; exit 3"});
  Run();
  EXPECT_EQ(exits_.at(0).exit_code, 3);
  EXPECT_EQ(Spool(0), "");
  EXPECT_NE(Errors().find("shim.launch: Permission denied"), std::string::npos) << Errors();
  EXPECT_NE(Errors().find("s.sock: "), std::string::npos) << Errors();
  EXPECT_NE(Errors().find("spool': Permission denied"), std::string::npos) << Errors();
}

TEST_F(ShimConfineAsRoot, AStopKillsARankThatIgnoresIt) {
  AddRank({"test_rank", "ignore-term"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n"; }));
  shim_->Stop(1);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_EQ(how_, "empty");
}

TEST_F(ShimConfineAsRoot, ItDiesWithTheShim) {
  AddRank({"test_rank", "sleep"});
  Spawn();
  ASSERT_TRUE(Until([this] { return started_.count(0) > 0; }));
  const pid_t rank = started_.at(0).pid;
  kill(shim_->pid(), SIGKILL);
  EXPECT_TRUE(Until([rank] { return !Alive(rank); }));
}

TEST_F(ShimConfineAsRoot, RanksShareTheirOwnTmpAndMemoryAndSeeNothingElseThere) {
  const std::string script =
      "until [ -e /tmp/other ] || [ $RANK = 0 ]; do sleep 0.01; done; touch /tmp/other; "
      "touch /dev/shm/mine.$RANK checkpoint; ls /tmp | tr '\\n' ' '; ls -d /tmp/mshim-*/*";
  AddRank({"/bin/sh", "-c", script});
  AddRank({"/bin/sh", "-c", script});
  for (common::RankLaunch& rank : launch_.ranks) {
    rank.env.push_back("RANK=" + std::to_string(rank.rank));
  }
  UseOwnMounts();
  const std::string outside = "/tmp/outside-" + launch_.mark;
  ASSERT_TRUE(common::WriteFileDurably(outside, "secret", 0644).ok());
  Run();
  unlink(outside.c_str());
  EXPECT_EQ(exits_.at(0).exit_code, 0) << Errors();
  EXPECT_EQ(exits_.at(1).exit_code, 0);
  // Its working directory is below /tmp and stays; the attempt's directory is there for the sake of
  // the one below it that it may see.
  const std::string name = root_.substr(5);
  EXPECT_EQ(Spool(0), name + " other " + root_ + "/7-2\n" + root_ + "/work\n");
  EXPECT_TRUE(common::Exists(root_ + "/work/checkpoint"));
  EXPECT_TRUE(common::Exists(launch_.attempt_dir + "/tmp/other"));
  EXPECT_FALSE(common::Exists("/dev/shm/mine.0"));
}

TEST_F(ShimConfineAsRoot, TheWorkersDirectoriesAreCoveredButForItsOwn) {
  AddRank({"/bin/sh", "-c",
           "ls " + launch_.attempt_dir + "; echo x >checkpoint; echo x >" + launch_.attempt_dir +
               "/checkpoints/f; mkdir " + launch_.attempt_dir + "/new 2>&1 | sed 's/.*: //'"});
  UseOwnMounts();
  launch_.sandbox.temporary_dir.clear();
  Run();
  EXPECT_EQ(Spool(0), "checkpoints\nRead-only file system\n") << Errors();
  EXPECT_EQ(common::ReadFile(launch_.attempt_dir + "/checkpoints/f").value_or(""), "x\n");
}

TEST_F(ShimConfineAsRoot, NoLinkInAJobsPathIsFollowed) {
  AddRank({"/bin/true"});
  UseOwnMounts();
  ASSERT_TRUE(common::MakeDirectories(root_ + "/open", 0755).ok());
  ASSERT_EQ(symlink((root_ + "/open").c_str(), (root_ + "/link").c_str()), 0);
  launch_.sandbox.kept_dirs = {root_ + "/link"};
  Run();
  EXPECT_TRUE(exits_.empty());
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_NE(record->failure.find(root_ + "/link: Too many levels of symbolic links"),
            std::string::npos)
      << record->failure;
}

TEST_F(ShimConfineAsRoot, AJobsPathIsOpenedWithItsRightsOnly) {
  AddRank({"/bin/true"});
  UseOwnMounts();
  // A directory that everyone may read behind one that only root may enter.
  ASSERT_TRUE(common::MakeDirectories(root_ + "/closed", 0700).ok());
  ASSERT_TRUE(common::MakeDirectories(root_ + "/closed/open", 0755).ok());
  launch_.sandbox.kept_dirs = {root_ + "/closed/open"};
  Run();
  EXPECT_TRUE(exits_.empty());
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_NE(record->failure.find(root_ + "/closed/open: Permission denied"), std::string::npos)
      << record->failure;
}

TEST_F(ShimConfine, AccountAndSandboxAreReadBackFromTheLaunchFile) {
  launch_.account = {true, 1, 2, {2, 3}};
  launch_.sandbox = {true, true, true, true, "/t", {"/k"}, {"/h", "/i"}, {"/s"}, true, true};
  common::ShimLaunch read;
  ASSERT_TRUE(common::DecodeShimLaunch(common::EncodeShimLaunch(launch_), &read));
  EXPECT_EQ(common::EncodeShimLaunch(read), common::EncodeShimLaunch(launch_));
  EXPECT_EQ(read.account.groups, launch_.account.groups);
  EXPECT_EQ(read.sandbox.hidden_dirs, launch_.sandbox.hidden_dirs);
  EXPECT_TRUE(read.sandbox.has_own_mounts);
  EXPECT_TRUE(read.sandbox.has_own_processes);
}

TEST_F(ShimConfine, RanksOfOneAttemptReachEachOtherAndNoOtherProcessOfTheirAccount) {
  const std::string probe = SiblingBinary("../muster-shim") + " --probe | grep -q '^domain.$'";
  if (std::system(probe.c_str()) != 0) GTEST_SKIP() << "no Landlock with scopes here";
  launch_.no_new_privs = true;
  launch_.sandbox.drops_capabilities = true;  // CAP_PERFMON reads environments
  launch_.sandbox.has_own_domain = true;
  AddRank({"test_rank", "reach", std::to_string(getpid())});
  AddRank({"test_rank", "sleep"});
  AddRank({"/bin/sh", "-c",
           "until read -r other <" + root_ + "/other; do sleep 0.01; done; exec " +
               SiblingBinary("test_rank") + " reach $other"});
  Spawn();
  ASSERT_TRUE(Until([this] { return started_.count(1) > 0; }));
  const std::string pid = std::to_string(started_.at(1).pid) + "\n";
  ASSERT_TRUE(common::WriteFileDurably(root_ + "/other", pid).ok());
  ASSERT_TRUE(Until([this] { return exits_.count(0) > 0 && exits_.count(2) > 0; }));
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(Spool(0), "kill EPERM\nptrace EPERM\nenviron other\n");
  EXPECT_EQ(Spool(2), "kill WORKS\nptrace WORKS\nenviron WORKS\n");
  EXPECT_EQ(how_, "empty");
}

class ShimConfineProcesses : public ShimConfineAsRoot {
 protected:
  void SetUp() override {
    ShimConfineAsRoot::SetUp();
    launch_.sandbox.has_own_ipc = launch_.sandbox.has_own_processes = true;
  }

  // The supervisor, and all that lives of the attempt.
  std::vector<pid_t> LiveOfTheAttempt() const {
    std::vector<pid_t> live;
    for (const common::ProcessStat& process : common::ListProcesses()) {
      if (process.state != 'Z' &&
          common::EnvironValue(process.pid, common::kMarkVariable) == launch_.mark)
        live.push_back(process.pid);
    }
    return live;
  }
};

TEST_F(ShimConfineProcesses, RanksSeeEachOtherUnderTheNumbersThatTheNodeHas) {
  AddRank({"/bin/sh", "-c", "echo $$ >/tmp/1; until [ -e /tmp/2 ]; do sleep 0.01; done; echo $$"});
  AddRank({"/bin/sh", "-c",
           "until [ -s /tmp/1 ]; do sleep 0.01; done; kill -0 $(cat /tmp/1) && echo reached; "
           "cat /proc/1/comm; kill -KILL 1; echo x >/proc/sys/kernel/hostname; echo $PPID; touch "
           "/tmp/2"});
  UseOwnMounts();
  Run();
  EXPECT_EQ(Spool(0), std::to_string(exits_.at(0).pid) + "\n")
      << Errors() << "exit code " << exits_.at(0).exit_code << ", signal " << exits_.at(0).signal;
  EXPECT_EQ(Spool(1), "reached\nmuster-first\n0\n");
  EXPECT_NE(Spool(1, common::Stream::kStderr).find("Read-only file system"), std::string::npos);
  EXPECT_EQ(how_, "empty");
}

TEST_F(ShimConfineProcesses, WhatARankLeftBehindEndsWithTheAttempt) {
  AddRank({"/bin/sh", "-c", "setsid env -i /bin/sleep 1000 & exit 5"});
  UseOwnMounts();
  Run();
  EXPECT_EQ(exits_.at(0).exit_code, 5);
  EXPECT_EQ(how_, "empty");
  EXPECT_TRUE(LiveOfTheAttempt().empty());
}

TEST_F(ShimConfineProcesses, AllOfThemEndWithAKilledSupervisorWhateverTheyDid) {
  AddRank({"/bin/sh", "-c",
           "setsid env -i /bin/sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/tmp/left; "
           "echo ready; exec sleep 1000"});
  UseOwnMounts();
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n" && started_.count(0) > 0; }));
  std::vector<pid_t> below;
  for (const common::ProcessStat& process : common::ListProcesses()) {
    if (process.ppid == started_.at(0).pid) below.push_back(process.pid);
  }
  ASSERT_EQ(below.size(), 1u);  // without the mark
  kill(shim_->pid(), SIGKILL);
  EXPECT_TRUE(Until([&] { return LiveOfTheAttempt().empty() && !Alive(below.front()); }));
}

TEST_F(ShimConfineProcesses, SystemVMemoryEndsWithThem) {
  AddRank({"/bin/sh", "-c", "ipcmk -M 4096 -p 0666 >/dev/null && ipcs -m | grep -c 666"});
  UseOwnMounts();
  Run();
  EXPECT_EQ(Spool(0), "1\n") << Errors();
  std::string segments;
  ASSERT_TRUE(common::ReadSmallFile("/proc/sysvipc/shm", &segments));
  EXPECT_EQ(segments.find(" " + std::to_string(kUid) + " "), std::string::npos) << segments;
}

TEST_F(ShimConfine, TheListedCallsAreRefusedAndOthersAreNot) {
  launch_.no_new_privs = true;
  launch_.sandbox.filters_calls = true;
  AddRank({"test_rank", "forbidden"});
  Run();
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(Spool(0), '\n', absl::SkipEmpty()))) {
    EXPECT_TRUE(line.ends_with(" EPERM") || line == "clone3 ENOSYS" || line == "rest works")
        << line;
  }
  EXPECT_NE(Spool(0).find("rest works\n"), std::string::npos) << Spool(0);
}

}  // namespace
}  // namespace muster::worker
