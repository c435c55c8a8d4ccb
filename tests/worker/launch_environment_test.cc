#include "worker/launch/launch_environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>

#include "common/files/files.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {
namespace {

using muster::v1::LaunchAttempt;

// The second node of a job with 3 ranks, with local ranks 0 and 1.
LaunchAttempt Launch() {
  LaunchAttempt launch;
  launch.set_job(42);
  launch.set_attempt(3);
  launch.set_job_name("digits-42");
  launch.set_world_size(3);
  launch.set_group_world_size(2);
  launch.set_master_addr("10.0.0.1");
  launch.set_master_port(20007);
  launch.set_restart_count(3);
  launch.set_max_restarts(5);
  launch.mutable_part()->set_node("node-b");
  launch.mutable_part()->set_group_rank(1);
  launch.mutable_part()->set_first_rank(1);
  launch.mutable_part()->set_local_world_size(2);
  launch.mutable_part()->set_device_kind("cpu");
  launch.mutable_spec()->add_command("train");
  launch.mutable_spec()->set_workdir("/home/ada/run");
  (*launch.mutable_spec()->mutable_env())["PATH"] = "/opt/bin";
  (*launch.mutable_spec()->mutable_env())["HOME"] = "/home/ada";
  return launch;
}

LaunchFacts Facts() {
  LaunchFacts facts;
  facts.node = "node-b";
  facts.advertise = "10.0.0.2";
  facts.interfaces = {{"lo", "127.0.0.1"}, {"eth1", "10.0.0.2"}, {"eth2", "10.0.1.2"}};
  facts.usable_cores = 8;
  facts.mark = "42-3-0123456789abcdef";
  facts.trainer_socket = "/run/t.sock";
  facts.rank_token_file = "/a/credential/token";
  facts.errors_dir = "/a/errors";
  facts.checkpoint_dir = "/a/checkpoints";
  facts.tensorboard_dir = "/a/tensorboard";
  facts.diagnostics_dir = "/a/diagnostics";
  facts.home = "/root";
  facts.user = "root";
  return facts;
}

using Env = std::map<std::string, std::string>;

Env EnvOf(const common::RankLaunch& rank) {
  Env env;
  for (const std::string& entry : rank.env) {
    const size_t equals = entry.find('=');
    EXPECT_TRUE(env.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second) << entry;
  }
  return env;
}

TEST(LaunchEnvironment, EveryVariableOfTheContractIsThereWithItsValue) {
  const auto ranks = BuildRanks(Launch(), Facts());
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].rank, 2u);
  EXPECT_EQ(ranks[1].local_rank, 1u);
  EXPECT_EQ(ranks[1].workdir, "/home/ada/run");
  const Env expected = {
      {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
      {"GLOO_SOCKET_IFNAME", "eth1"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"HCCL_SOCKET_IFNAME", "eth1"},
      {"HOME", "/home/ada"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"LOGNAME", "root"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "20007"},
      {"MUSTER_ATTEMPT", "3"},
      {"MUSTER_ATTEMPT_MARK", "42-3-0123456789abcdef"},
      {"MUSTER_CHECKPOINT_DIR", "/a/checkpoints"},
      {"MUSTER_DIAGNOSTICS_DIR", "/a/diagnostics"},
      {"MUSTER_JOB_ID", "42"},
      {"MUSTER_JOB_NAME", "digits-42"},
      {"MUSTER_RANK_TOKEN_FILE", "/a/credential/token"},
      {"MUSTER_SOCKET", "/run/t.sock"},
      {"MUSTER_TENSORBOARD_DIR", "/a/tensorboard"},
      {"NCCL_SOCKET_IFNAME", "eth1"},
      {"OMP_NUM_THREADS", "4"},
      {"PATH", "/opt/bin"},
      {"PWD", "/home/ada/run"},
      {"PYTHONUNBUFFERED", "1"},
      {"RANK", "2"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "2"},
      {"ROLE_WORLD_SIZE", "3"},
      {"TORCHELASTIC_ERROR_FILE", "/a/errors/rank-2.json"},
      {"TORCHELASTIC_MAX_RESTARTS", "5"},
      {"TORCHELASTIC_RESTART_COUNT", "3"},
      {"TORCHELASTIC_RUN_ID", "42"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"USER", "root"},
      {"WORLD_SIZE", "3"},
  };
  EXPECT_EQ(EnvOf(ranks[1]), expected);
}

TEST(LaunchEnvironment, TheUsersChoicesStayWhereTheContractSaysUnlessSet) {
  LaunchAttempt launch = Launch();
  auto& env = *launch.mutable_spec()->mutable_env();
  const Env chosen = {{"OMP_NUM_THREADS", "3"},
                      {"GLOO_SOCKET_IFNAME", "ib0"},
                      {"NCCL_SOCKET_IFNAME", "ib1"},
                      {"PYTHONUNBUFFERED", ""},
                      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
                      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM"}};
  for (const auto& [name, value] : chosen) env[name] = value;
  const Env got = EnvOf(BuildRanks(launch, Facts())[0]);
  for (const auto& [name, value] : chosen) EXPECT_EQ(got.at(name), value) << name;
}

TEST(LaunchEnvironment, WhatAnOuterJobOrLauncherLeftIsReplacedOrRemoved) {
  LaunchAttempt launch = Launch();
  auto& env = *launch.mutable_spec()->mutable_env();
  env["RANK"] = "17";
  env["WORLD_SIZE"] = "99";
  env["MASTER_ADDR"] = "elsewhere";
  env["MUSTER_SOCKET"] = "/outer.sock";
  env["MUSTER_RESUME_FROM"] = "/outer/step-9";
  env["TORCHELASTIC_TIMER_FILE"] = "/outer/pipe";
  const Env got = EnvOf(BuildRanks(launch, Facts())[0]);
  EXPECT_EQ(got.at("RANK"), "1");
  EXPECT_EQ(got.at("WORLD_SIZE"), "3");
  EXPECT_EQ(got.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(got.at("MUSTER_SOCKET"), "/run/t.sock");
  EXPECT_EQ(got.count("MUSTER_RESUME_FROM"), 0u);
  EXPECT_EQ(got.count("TORCHELASTIC_TIMER_FILE"), 0u);
}

TEST(LaunchEnvironment, AResumedAttemptKnowsItsDirectory) {
  LaunchFacts facts = Facts();
  facts.resume_dir = "/a/resume/step-40";
  EXPECT_EQ(EnvOf(BuildRanks(Launch(), facts)[0]).at("MUSTER_RESUME_FROM"), "/a/resume/step-40");
}

TEST(LaunchEnvironment, ACleanEnvironmentStillHasAPathAndAHome) {
  LaunchAttempt launch = Launch();
  launch.mutable_spec()->clear_env();
  const Env got = EnvOf(BuildRanks(launch, Facts())[0]);
  EXPECT_EQ(got.at("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  EXPECT_EQ(got.at("HOME"), "/root");
}

TEST(LaunchEnvironment, RankNumbersAreReplacedInArguments) {
  LaunchAttempt launch = Launch();
  launch.mutable_spec()->add_command("--out=/tmp/${rank}/${local_rank}/$RANK/${other}");
  const auto ranks = BuildRanks(launch, Facts());
  EXPECT_EQ(ranks[0].argv[1], "--out=/tmp/1/0/$RANK/${other}");
  EXPECT_EQ(ranks[1].argv[1], "--out=/tmp/2/1/$RANK/${other}");
}

TEST(LaunchEnvironment, ThreadsFollowTheLimitOfProcessors) {
  LaunchFacts facts = Facts();
  facts.usable_cores = 8;
  const auto threads = [&facts](uint32_t cpu_millis) {
    LaunchAttempt launch = Launch();
    launch.mutable_spec()->mutable_shape()->mutable_limits()->set_cpu_millis(cpu_millis);
    return EnvOf(BuildRanks(launch, facts)[0]).at("OMP_NUM_THREADS");
  };
  EXPECT_EQ(threads(2'500), "2");
  EXPECT_EQ(threads(500), "1");
  EXPECT_EQ(threads(64'000), "8");
}

TEST(LaunchEnvironment, ThereIsAlwaysAThreadPerRank) {
  LaunchFacts facts = Facts();
  facts.usable_cores = 1;
  EXPECT_EQ(EnvOf(BuildRanks(Launch(), facts)[0]).at("OMP_NUM_THREADS"), "1");
}

TEST(LaunchEnvironment, AnAdvertisedNameHasNoInterface) {
  LaunchFacts facts = Facts();
  facts.advertise = "node-b.example";
  EXPECT_EQ(EnvOf(BuildRanks(Launch(), facts)[0]).count("GLOO_SOCKET_IFNAME"), 0u);
}

LaunchAttempt WithDevices(const std::string& kind, std::vector<uint32_t> indexes) {
  LaunchAttempt launch = Launch();
  launch.mutable_part()->set_device_kind(kind);
  for (const uint32_t index : indexes) launch.mutable_part()->add_device_indexes(index);
  (*launch.mutable_spec()->mutable_env())["CUDA_VISIBLE_DEVICES"] = "7";
  return launch;
}

TEST(LaunchEnvironment, AllRanksOfANodeSeeItsWholeGrant) {
  LaunchFacts facts = Facts();
  facts.device_kinds = {"cpu", "gpu"};
  const auto ranks = BuildRanks(WithDevices("gpu", {5, 2}), facts);
  for (const common::RankLaunch& rank : ranks) {
    EXPECT_EQ(EnvOf(rank).at("CUDA_VISIBLE_DEVICES"), "2,5");
    EXPECT_EQ(EnvOf(rank).count("ASCEND_RT_VISIBLE_DEVICES"), 0u);
    EXPECT_EQ(EnvOf(rank).count("HCCL_IF_BASE_PORT"), 0u);
  }
}

TEST(LaunchEnvironment, WithVirtualLocalRankEachSeesItsShareAsDeviceZero) {
  LaunchAttempt launch = WithDevices("gpu", {0, 1, 2, 3});
  launch.mutable_spec()->set_virtual_local_rank(true);
  launch.mutable_spec()->add_command("${local_rank}");
  const auto ranks = BuildRanks(launch, Facts());
  EXPECT_EQ(EnvOf(ranks[0]).at("CUDA_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(EnvOf(ranks[1]).at("CUDA_VISIBLE_DEVICES"), "2,3");
  EXPECT_EQ(EnvOf(ranks[1]).at("LOCAL_RANK"), "0");
  EXPECT_EQ(EnvOf(ranks[1]).at("RANK"), "2");
  EXPECT_EQ(ranks[1].argv[1], "0");
}

TEST(LaunchEnvironment, GpusThatWereNotGrantedAreHiddenAndAbsentOnesAreNoBusinessOfOurs) {
  LaunchFacts facts = Facts();
  EXPECT_EQ(EnvOf(BuildRanks(WithDevices("cpu", {0, 1}), facts)[0]).at("CUDA_VISIBLE_DEVICES"),
            "7");
  facts.device_kinds = {"cpu", "gpu", "npu"};
  const Env got = EnvOf(BuildRanks(WithDevices("cpu", {0, 1}), facts)[0]);
  EXPECT_EQ(got.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(got.at("ASCEND_RT_VISIBLE_DEVICES"), "");
}

TEST(LaunchEnvironment, NpuRanksGetTheirListTheirLeasedPortsAndWhatHcclNeeds) {
  LaunchFacts facts = Facts();
  facts.first_port = 60064;
  const Env got = EnvOf(BuildRanks(WithDevices("npu", {10, 9}), facts)[0]);
  EXPECT_EQ(got.at("ASCEND_RT_VISIBLE_DEVICES"), "9,10");
  EXPECT_EQ(got.at("HCCL_IF_BASE_PORT"), "60064");
  EXPECT_EQ(got.at("HCCL_IF_IP"), "10.0.0.2");
  EXPECT_EQ(got.at("HCCL_CONNECT_TIMEOUT"), "600");
  EXPECT_EQ(got.at("HCCL_WHITELIST_DISABLE"), "1");
  EXPECT_EQ(got.count("RANK_TABLE_FILE"), 0u);
  facts.rank_table = "/a/credential/rank_table.json";
  EXPECT_EQ(EnvOf(BuildRanks(WithDevices("npu", {10, 9}), facts)[0]).at("RANK_TABLE_FILE"),
            facts.rank_table);
}

TEST(LaunchEnvironment, WhatTheUserSetsForHcclStays) {
  LaunchFacts facts = Facts();
  facts.first_port = 60064;
  facts.rank_table = "/a/credential/rank_table.json";
  LaunchAttempt launch = WithDevices("npu", {9, 8});
  const Env chosen = {{"HCCL_IF_BASE_PORT", "50000"},
                      {"HCCL_IF_IP", "10.9.0.2"},
                      {"HCCL_CONNECT_TIMEOUT", "7200"},
                      {"HCCL_WHITELIST_DISABLE", "0"},
                      {"RANK_TABLE_FILE", ""}};
  for (const auto& [name, value] : chosen) (*launch.mutable_spec()->mutable_env())[name] = value;
  const Env got = EnvOf(BuildRanks(launch, facts)[0]);
  for (const auto& [name, value] : chosen) EXPECT_EQ(got.at(name), value) << name;
}

TEST(LaunchEnvironment, AnAdvertisedNameIsNotTheAddressOfHccl) {
  LaunchFacts facts = Facts();
  facts.advertise = "node-b.example";
  EXPECT_EQ(EnvOf(BuildRanks(WithDevices("npu", {8, 9}), facts)[0]).count("HCCL_IF_IP"), 0u);
}

TEST(LaunchEnvironment, ThisHostHasALoopbackInterface) {
  bool found = false;
  for (const InterfaceAddress& entry : ListInterfaceAddresses())
    found |= entry.address == "127.0.0.1";
  EXPECT_TRUE(found);
}

class CheckLaunchTest : public testing::Test {
 protected:
  CheckLaunchTest() {
    char name[] = "/tmp/mlaunch-XXXXXX";
    root_ = mkdtemp(name);
    Put("bin/tool", "#!/bin/sh\n", 0755);
    Put("bin/data", "text", 0644);
    Put("other/data", "#!/bin/sh\n", 0755);
    Put("run/here", "#!/bin/sh\n", 0755);
    Put("run/args.py", "import sys\n", 0644);
    Put("run/bare.py", "import sys\n", 0755);
    Put("run/whole.py", "#!/usr/bin/env python3\n", 0755);
    Put("run/bare.sh", "echo\n", 0755);
    Put("run/locked", "#!/bin/sh\n", 0644);
    Put("run/python", "#!/no/such/python3 -u\nprint()\n", 0755);
  }
  ~CheckLaunchTest() override { EXPECT_TRUE(common::RemoveTree(root_).ok()); }

  void Put(const std::string& path, const std::string& text, int mode) {
    const std::string full = root_ + "/" + path;
    EXPECT_TRUE(common::MakeDirectories(full.substr(0, full.rfind('/'))).ok());
    EXPECT_TRUE(common::WriteFileDurably(full, text, mode).ok());
  }

  std::optional<LaunchProblem> Check(const std::string& command, const std::string& path = "") {
    common::RankLaunch rank;
    rank.argv = {command};
    rank.workdir = root_ + "/run";
    rank.env = {"PATHS=no", "PATH=" + (path.empty() ? root_ + "/bin:" + root_ + "/other" : path)};
    ranks_ = {rank, rank};
    return CheckLaunch("n1", &ranks_);
  }

  std::string root_;
  std::vector<common::RankLaunch> ranks_;
};

TEST_F(CheckLaunchTest, CommandsAreFoundAsAShellFindsThem) {
  EXPECT_FALSE(Check("tool").has_value());
  EXPECT_EQ(ranks_[0].program, root_ + "/bin/tool");
  EXPECT_EQ(ranks_[1].program, root_ + "/bin/tool");
  EXPECT_EQ(ranks_[0].argv[0], "tool");
  EXPECT_FALSE(Check("data").has_value());  // bin/data is not executable, other/data is
  EXPECT_EQ(ranks_[0].program, root_ + "/other/data");
  EXPECT_FALSE(Check("./here").has_value());
  EXPECT_EQ(ranks_[0].program, root_ + "/run/./here");
  EXPECT_FALSE(Check("../bin/tool").has_value());
  EXPECT_FALSE(Check("tool", "../bin").has_value());
}

TEST_F(CheckLaunchTest, AMissingCommandIs127) {
  const auto problem = Check("trian", "/bin:/usr/bin");
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->exit_code, 127);
  EXPECT_EQ(problem->launch_errno, ENOENT);
  EXPECT_EQ(problem->text,
            "node n1: command 'trian' was not found in PATH (/bin:/usr/bin); fix: correct the "
            "command, or install it on that node");
  EXPECT_EQ(Check("/no/such")->text,
            "node n1: command '/no/such' was not found there; fix: correct the command, or install "
            "it on that node");
  EXPECT_EQ(Check("here")->text, "node n1: command 'here' was not found in PATH, but is in " +
                                     root_ + "/run; fix: write ./here");
}

TEST_F(CheckLaunchTest, AFileOfTheWorkingDirectoryIsSaidToBeRunAsItCanBe) {
  const auto lies = [&](const std::string& name, const std::string& how) {
    const auto problem = Check(name);
    ASSERT_TRUE(problem.has_value()) << name;
    EXPECT_TRUE(problem->text.ends_with(", but is in " + root_ + "/run; fix: write " + how))
        << problem->text;
    EXPECT_EQ(problem->exit_code, 127);
  };
  lies("args.py", "python args.py");
  lies("bare.py", "python bare.py");
  lies("whole.py", "./whole.py");
  lies("locked", "./locked, after chmod +x locked");
}

TEST_F(CheckLaunchTest, APythonFileWithoutAFirstLineIsNotGivenToTheShell) {
  const auto problem = Check("./bare.py");
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->exit_code, 126);
  EXPECT_EQ(
      problem->text,
      "node n1: " + root_ +
          "/run/./bare.py has no #! line, so the system would run it in "
          "/bin/sh; fix: write python ./bare.py, or make #!/usr/bin/env python3 its first line");
  EXPECT_FALSE(Check("./whole.py").has_value());
  EXPECT_FALSE(Check("./bare.sh").has_value()) << "that is what /bin/sh is for";
  EXPECT_TRUE(Check("./args.py")->text.ends_with("fix: write python " + root_ + "/run/./args.py"));
}

TEST_F(CheckLaunchTest, ACommandThatIsNotExecutableIs126) {
  const auto problem = Check("data", root_ + "/bin");
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->exit_code, 126);
  EXPECT_EQ(problem->launch_errno, EACCES);
  EXPECT_EQ(problem->text, "node n1: command " + root_ +
                               "/bin/data cannot be executed: Permission denied; fix: chmod +x " +
                               root_ + "/bin/data");
  EXPECT_EQ(Check("../bin")->exit_code, 126);
}

TEST_F(CheckLaunchTest, AMissingInterpreterIsNamed) {
  const auto problem = Check("./python");
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->exit_code, 127);
  EXPECT_EQ(problem->text,
            "node n1: the interpreter '/no/such/python3' in the first line of " + root_ +
                "/run/./python was not found; fix: correct that line, or install it");
}

TEST_F(CheckLaunchTest, AMissingWorkingDirectoryComesFirst) {
  common::RankLaunch rank;
  rank.argv = {"nothing"};
  rank.workdir = root_ + "/gone";
  ranks_ = {rank};
  const auto problem = CheckLaunch("n1", &ranks_);
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->exit_code, 126);
  EXPECT_EQ(problem->text,
            "node n1: working directory " + root_ +
                "/gone: does not exist; fix: create it on that node (a shared file system, or a "
                "copy), or use another one with --workdir");
}

TEST(LaunchEnvironment, ANotifyCommandOfAJobThatLeavesItsDirectoryToItsImageRunsAtTheRoot) {
  muster::v1::RunNotify order;
  order.add_command("/bin/true");
  EXPECT_EQ(BuildNotify(order, LaunchFacts()).workdir, "/");
  order.set_workdir("/home/ada");
  EXPECT_EQ(BuildNotify(order, LaunchFacts()).workdir, "/home/ada");
}

}  // namespace
}  // namespace muster::worker
