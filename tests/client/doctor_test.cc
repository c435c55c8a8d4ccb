// What doctor makes of facts: a machine that is well, and each thing that can be wrong with it.
#include "client/doctor/checks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "client/doctor/cluster.h"
#include "client/doctor/coordinators.h"
#include "client/doctor/machine.h"
#include "common/base/version.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::client::doctor {
namespace {

constexpr uint64_t kGB = 1'000'000'000;

MachineFacts HealthyMachine() {
  MachineFacts facts;
  facts.devices = {.nvidia_nodes = 8, .nvidia_driver = "550.54.15", .cuda_toolkit = "12.4"};
  facts.python = {.program = "/venv/bin/python",
                  .torch = "2.6.0+cu124",
                  .torch_cuda = "12.4",
                  .py_spy = "/venv/bin/py-spy"};
  facts.network = {.hostname = "node1",
                   .addresses = {"10.0.0.1"},
                   .ports_tried = 90,
                   .ports_free = 90,
                   .ephemeral_first = 32768,
                   .ephemeral_last = 60999};
  facts.clock = {.synchronized = true, .error_us = 3'000, .wall_s = 1'800'000'000};
  const DiskFacts disk = {.path = "/data",
                          .bytes = 100 * kGB,
                          .bytes_free = 50 * kGB,
                          .inodes = 1'000'000,
                          .inodes_free = 900'000};
  facts.data_disk = facts.temp_disk = facts.shared_memory = disk;
  facts.limits.open_files = {1024, 1 << 20};
  facts.memory = {.kill_level = "cgroup v2", .kills_attributed = true, .kills = 0};
  facts.coordinator = {.answers = true, .version = common::kVersion, .protocol = 1};
  facts.all_reduce = {.done = true, .took_ms = 300};
  return facts;
}

// "good 550.54.15, 8 devices"
std::string Judged(std::string_view thing, const MachineFacts& facts) {
  for (const Check& check : Checks()) {
    if (check.thing != thing) continue;
    const Verdict verdict = check.judge(facts);
    EXPECT_EQ(verdict.fix.empty(), verdict.grade == Grade::kGood) << thing << ": " << verdict.value;
    const char* grade = verdict.grade == Grade::kGood      ? "good "
                        : verdict.grade == Grade::kWarning ? "warning "
                                                           : "broken ";
    return grade + verdict.value;
  }
  return "no such check";
}

TEST(DoctorTest, AHealthyMachineIsAllGood) {
  for (const Check& check : Checks())
    EXPECT_EQ(Judged(check.thing, HealthyMachine()).substr(0, 5), "good ") << check.thing;
}

struct Break {
  std::string_view thing;
  std::function<void(MachineFacts&)> how;
  std::string_view says;
};

TEST(DoctorTest, EachThingThatIsBrokenOnPurposeIsNamed) {
  const Break kBreaks[] = {
      {"nvidia driver", [](auto& f) { f.devices.nvidia_driver = ""; },
       "broken not loaded, but /dev has 8 NVIDIA devices"},
      {"nvidia driver", [](auto& f) { f.devices.nvidia_nodes = 0; },
       "warning 550.54.15 is loaded, but /dev has no device"},
      {"cuda toolkit", [](auto& f) { f.devices.cuda_toolkit = "13.0"; },
       "broken 13.0: programs that it compiles need driver 580, and 550.54.15 is loaded"},
      {"cuda toolkit", [](auto& f) { f.devices.cuda_toolkit = "11.8"; },
       "warning 11.8, but torch is built for CUDA 12.4: extensions cannot be compiled for it"},
      {"ascend", [](auto& f) { f.devices.ascend_nodes = 8; },
       "broken no driver in /usr/local/Ascend/driver, but /dev has 8 devices"},
      {"ascend", [](auto& f) { f.devices.ascend_nodes = 8, f.devices.ascend_driver = "24.1"; },
       "warning driver 24.1, but no CANN toolkit"},
      {"npu ports", [](auto& f) { f.devices.ascend_nodes = 8; },
       "warning 60000-65535: the kernel may give 60000-60999 to outgoing connections before HCCL "
       "binds them"},
      {"npu ports",
       [](auto& f) {
         f.devices.ascend_nodes = 8, f.network.reserved = {{60000, 60031}};
       },
       "warning 60000-65535: the kernel may give 60032-60999 to outgoing connections before HCCL "
       "binds them"},
      {"npu ports",
       [](auto& f) {
         f.devices.ascend_nodes = 8, f.network.reserved = {{60000, 65535}};
       },
       "good 60000-65535: kept for HCCL"},
      {"torch", [](auto& f) { f.python.torch = "2.6.0+cpu", f.python.torch_cuda = ""; },
       "broken 2.6.0+cpu has no CUDA: it ignores 8 NVIDIA devices"},
      {"torch", [](auto& f) { f.devices.nvidia_driver = "520.61.05"; },
       "broken 2.6.0+cu124 is built for CUDA 12.4, which needs driver 525.60.13; 520.61.05 is "
       "loaded"},
      {"torch",
       [](auto& f) { f.devices.nvidia_driver = "520.61.05", f.devices.has_cuda_compat = true; },
       "warning 2.6.0+cu124 is built for CUDA 12.4, which needs driver 525.60.13; 520.61.05 is "
       "loaded; /usr/local/cuda/compat may make up for it"},
      {"torch", [](auto& f) { f.devices.ascend_nodes = 1; },
       "broken 2.6.0+cu124 has no torch_npu: it ignores 1 Ascend device"},
      {"torch", [](auto& f) { f.python.trouble = "does not answer within 1 s"; },
       "warning /venv/bin/python does not answer within 1 s"},
      {"py-spy", [](auto& f) { f.python.py_spy = ""; },
       "warning not installed: jobctl stack shows no Python functions"},
      {"host name", [](auto& f) { f.network.addresses = {"127.0.1.1"}; },
       "warning node1 resolves to 127.0.1.1: fine on one node, but jobs on several would not meet"},
      {"host name",
       [](auto& f) { f.network.addresses = {}, f.network.resolve_trouble = "no such name"; },
       "warning node1 does not resolve: no such name"},
      {"ports", [](auto& f) { f.network.loopback_trouble = "no such device"; },
       "broken 127.0.0.1 cannot be used: no such device"},
      {"ports", [](auto& f) { f.network.ports_free = 0; },
       "broken 20000-28999: 0 of 90 tried are free"},
      {"ports", [](auto& f) { f.network.ephemeral_first = 10000; },
       "warning 20000-28999: 90 of 90 tried are free, but the kernel uses 10000-60999 for outgoing "
       "connections"},
      {"clock", [](auto& f) { f.clock.synchronized = false; },
       "warning not synchronized: times of several nodes cannot be compared, and certificates may "
       "be refused"},
      {"clock", [](auto& f) { f.clock.wall_s = 5 * 31'556'952; },
       "broken set to 1975, in the past"},
      {"disk: data", [](auto& f) { f.data_disk.bytes_free = 1'000'000; },
       "broken full: 1.0 MB of 100 GB free at /data"},
      {"disk: /tmp", [](auto& f) { f.temp_disk.bytes_free = 2 * kGB; },
       "warning almost full: 2.0 GB of 100 GB free at /data"},
      {"disk: data", [](auto& f) { f.data_disk.inodes_free = 3; },
       "broken 50 GB of 100 GB free at /data, but 3 free inodes"},
      {"shared memory", [](auto& f) { f.shared_memory.bytes_free = 1'000'000; },
       "broken 1.0 MB of 100 GB free: a data loader's workers die of a bus error"},
      {"shared memory",
       [](auto& f) { f.shared_memory.bytes = f.shared_memory.bytes_free = 64 << 20; },
       "warning 67 MB of 67 MB free: little for data loaders with workers and for NCCL"},
      {"open files",
       [](auto& f) {
         f.limits.open_files = {64, 64};
       },
       "broken 64: daemons and data loaders run out of them"},
      {"open files",
       [](auto& f) {
         f.limits.open_files = {512, 4096};
       },
       "warning 512 (can be raised to 4096)"},
      {"processes",
       [](auto& f) {
         f.limits.processes = {100, 100};
       },
       "broken 100"},
      {"locked memory",
       [](auto& f) {
         f.limits.locked_memory = {8 << 20, 8 << 20};
         f.devices.has_infiniband = true;
       },
       "broken 8.4 MB: InfiniBand cannot register memory"},
      {"cgroups", [](auto& f) { f.memory.kill_level = "subreaper, process group and /proc scan"; },
       "warning ranks are killed by subreaper, process group and /proc scan"},
      {"out of memory",
       [](auto& f) { f.memory.last_kill_ago_s = 90, f.memory.last_killed = "python (pid 7)"; },
       "warning the kernel killed python (pid 7) for it 1m 30s ago"},
      {"out of memory", [](auto& f) { f.memory.kills = 3; },
       "warning 3 process kills since boot; when is only visible to root"},
      {"programs", [](auto& f) { f.programs.trouble = "muster-shim is nowhere"; },
       "broken muster-shim is nowhere"},
      {"coordinator",
       [](auto& f) {
         f.coordinator = {.trouble = "head:7700 does not answer", .fix = "ping head"};
       },
       "broken head:7700 does not answer"},
      {"all-reduce",
       [](auto& f) { f.all_reduce = {.trouble = "rank 1 did not come", .fix = "try"}; },
       "broken rank 1 did not come"},
  };
  for (const Break& each : kBreaks) {
    MachineFacts facts = HealthyMachine();
    each.how(facts);
    EXPECT_EQ(Judged(each.thing, facts), each.says);
  }
}

TEST(DoctorTest, AMachineWithoutAcceleratorsAndWithoutTorchIsWell) {
  MachineFacts facts = HealthyMachine();
  facts.devices = {};
  facts.python = {};
  EXPECT_EQ(Judged("nvidia driver", facts), "good no NVIDIA device");
  EXPECT_EQ(Judged("torch", facts), "good no python in PATH");
  facts.python = {.program = "/usr/bin/python3", .torch = "2.6.0+cpu"};
  EXPECT_EQ(Judged("torch", facts), "good 2.6.0+cpu (/usr/bin/python3)");
}

TEST(DoctorTest, KillsOfLongAgoAreNoWarningWhenTheKernelsLogTellsWhen) {
  MachineFacts facts = HealthyMachine();
  facts.memory.kills = 3;
  facts.memory.log_readable = true;
  facts.memory.last_kill_ago_s = 86'400;
  EXPECT_EQ(Judged("out of memory", facts),
            "good 3 process kills since boot, none within the hour");
}

TEST(DoctorTest, TheLastMemoryKillIsFoundInTheKernelsLog) {
  MemoryFacts facts;
  FindLastMemoryKill(
      {"6,1,100,-;usb 1-1: new device",
       "3,2,5000000,-;Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB",
       "3,3,9000000,-;Out of memory: Killed process 4321 (data loader) total-vm:1kB",
       "6,4,9500000,-;Killed process", "garbage Killed process 5 (x)"},
      69'000'000, &facts);
  EXPECT_EQ(facts.last_killed, "data loader (pid 4321)");
  EXPECT_EQ(facts.last_kill_ago_s, 60);
}

TEST(DoctorTest, DoctorTriesThePortsThatAWorkerHolds) {
  EXPECT_EQ(kMasterPortFirst, worker::PortRange().first);
  EXPECT_EQ(kMasterPortLast, worker::PortRange().last);
}

class DoctorFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/doctor.XXXXXX";
    root_ = mkdtemp(path);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }
  std::string root_;
};

TEST_F(DoctorFilesTest, DriversAndToolkitsAreReadFromTheirFiles) {
  Write("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
        "GCC version:  gcc version 12.2.0\n");
  for (const char* node : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "davinci3"})
    Write(std::string("/dev/") + node, "");
  Write("/usr/local/cuda/version.json",
        R"({ "cuda" : { "name" : "CUDA SDK", "version" : "12.4.20240301" }, "x": {} })");
  Write("/usr/local/Ascend/driver/version.info", "Version=24.1.rc2\nascendhal_version=7.35.19\n");
  Write("/usr/local/Ascend/ascend-toolkit/latest/version.cfg",
        "# version: 1.0\ntoolkit_running_version=[8.0.RC3.10:8.0.RC3]\n");
  Write("/sys/class/infiniband/mlx5_0", "");
  const DeviceFacts facts = ReadDevices(root_, root_ + "/bin");
  EXPECT_EQ(facts.nvidia_driver, "550.54.15");
  EXPECT_EQ(facts.nvidia_nodes, 3);
  EXPECT_EQ(facts.cuda_toolkit, "12.4");
  EXPECT_EQ(facts.ascend_nodes, 1);
  EXPECT_EQ(facts.ascend_driver, "24.1.rc2");
  EXPECT_EQ(facts.ascend_toolkit, "8.0.RC3.10:8.0.RC3");
  EXPECT_TRUE(facts.has_infiniband);
}

TEST_F(DoctorFilesTest, ACompilerElsewhereTellsItsRelease) {
  Write("/bin/nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n");
  std::filesystem::permissions(root_ + "/bin/nvcc", std::filesystem::perms::owner_all);
  EXPECT_EQ(ReadDevices(root_, root_ + "/bin").cuda_toolkit, "13.0");
}

TEST_F(DoctorFilesTest, NothingInstalledIsNoTrouble) {
  const DeviceFacts facts = ReadDevices(root_, root_ + "/bin");
  EXPECT_EQ(facts.nvidia_nodes + facts.ascend_nodes, 0);
  EXPECT_EQ(facts.nvidia_driver + facts.cuda_toolkit + facts.ascend_driver, "");
}

TEST_F(DoctorFilesTest, TorchIsReadFromItsFilesWhereverPythonFindsIt) {
  Write("/site/torch/version.py",
        "from typing import Optional\n__all__ = ['__version__', 'cuda']\n"
        "__version__ = '2.6.0+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\n"
        "hip: Optional[str] = None\n");
  Write("/bin/python", "#!/bin/sh\necho torch " + root_ + "/site/torch\n");
  std::filesystem::permissions(root_ + "/bin/python", std::filesystem::perms::owner_all);
  const PythonFacts facts = ReadPython("/nowhere:" + root_ + "/bin");
  EXPECT_EQ(facts.program, root_ + "/bin/python");
  EXPECT_EQ(facts.trouble, "");
  EXPECT_EQ(facts.torch, "2.6.0+cu124");
  EXPECT_EQ(facts.torch_cuda, "12.4");
  EXPECT_EQ(facts.torch_hip, "");
  // Where pip puts the programs of packages, as the environment's interpreter runs them.
  Write("/bin/py-spy", "");
  std::filesystem::permissions(root_ + "/bin/py-spy", std::filesystem::perms::owner_all);
  EXPECT_EQ(ReadPython(root_ + "/bin").py_spy, root_ + "/bin/py-spy");
}

TEST_F(DoctorFilesTest, APythonThatFailsIsATroubleAndNotAnAnswer) {
  Write("/bin/python", "#!/bin/sh\necho torch /nowhere\nexit 3\n");
  std::filesystem::permissions(root_ + "/bin/python", std::filesystem::perms::owner_all);
  const PythonFacts facts = ReadPython(root_ + "/bin");
  EXPECT_EQ(facts.trouble, "fails when asked for its packages");
  EXPECT_EQ(facts.torch, "");
}

TEST_F(DoctorFilesTest, ADiskIsMeasuredWhereItsDirectoryWillBe) {
  const DiskFacts facts = ReadDisk(root_ + "/not/yet/there");
  EXPECT_EQ(facts.path, root_);
  EXPECT_GT(facts.bytes, 0u);
}

v1::NodeView HealthyNode(const std::string& name) {
  v1::NodeView view;
  view.mutable_record()->set_state(v1::NODE_STATE_ALIVE);
  view.mutable_record()->set_connected(true);
  v1::NodeFacts* facts = view.mutable_record()->mutable_facts();
  facts->set_name(name);
  facts->set_hostname(name);
  facts->set_version("0.9");
  facts->set_protocol(2);
  facts->set_advertise("10.0.0." + name.substr(4));
  v1::DeviceUse* use = view.add_uses();
  use->set_kind("gpu");
  use->set_total(8);
  return view;
}

TEST(DoctorClusterTest, EachNodesTroublesAreNamedAndAHealthyNodeIsOneLine) {
  v1::GetServerResponse server;
  server.set_version("0.9");
  server.set_protocol(2);
  v1::ListNodesResponse nodes;
  *nodes.add_nodes() = HealthyNode("node1");
  *nodes.add_nodes() = HealthyNode("node2");
  nodes.mutable_nodes(1)->mutable_record()->mutable_facts()->set_version("0.8");
  nodes.mutable_nodes(1)->mutable_record()->set_draining(true);
  nodes.mutable_nodes(1)->mutable_record()->set_drain_reason("new disk");
  *nodes.add_nodes() = HealthyNode("node3");
  nodes.mutable_nodes(2)->mutable_record()->set_state(v1::NODE_STATE_LOST);
  nodes.mutable_nodes(2)->mutable_record()->set_reason("not heard from for 30s");
  *nodes.add_nodes() = HealthyNode("node4");
  nodes.mutable_nodes(3)->clear_uses();
  nodes.mutable_nodes(3)->mutable_record()->mutable_facts()->set_advertise("127.0.0.1");
  std::string text;
  for (const NodeVerdict& each : JudgeCluster(server, nodes)) {
    text += std::to_string(static_cast<int>(each.verdict.grade)) + " " + each.node + ": " +
            each.verdict.value + "\n";
  }
  EXPECT_EQ(text,
            "0 node1: 8 gpu, 0.9, 10.0.0.1\n"
            "1 node2: drained: new disk\n"
            "1 node2: version 0.8, protocol 2; the coordinator has 0.9, protocol 2\n"
            "2 node3: lost: not heard from for 30s\n"
            "1 node4: no accelerator, unlike other nodes\n"
            "2 node4: advertises 127.0.0.1, which other nodes cannot reach\n");
}

TEST(DoctorClusterTest, ARendezvousAtAPublicAddressIsAWarning) {
  v1::GetServerResponse server;
  server.set_version("0.9");
  server.set_protocol(2);
  for (const auto& [address, is_public] :
       std::vector<std::pair<const char*, bool>>{{"203.0.113.5", true},
                                                 {"2001:db8::1", true},
                                                 {"172.32.0.1", true},
                                                 {"100.128.0.1", true},
                                                 {"10.0.0.1", false},
                                                 {"172.31.255.1", false},
                                                 {"192.168.1.1", false},
                                                 {"100.64.0.1", false},
                                                 {"169.254.1.1", false},
                                                 {"fd00::1", false},
                                                 {"fe80::1", false},
                                                 {"node1.lab", false}}) {
    v1::ListNodesResponse nodes;
    *nodes.add_nodes() = HealthyNode("node1");
    nodes.mutable_nodes(0)->mutable_record()->mutable_facts()->set_advertise(address);
    const std::vector<NodeVerdict> verdicts = JudgeCluster(server, nodes);
    EXPECT_EQ(verdicts.front().verdict.grade, is_public ? Grade::kWarning : Grade::kGood)
        << address;
    EXPECT_EQ(verdicts.front().verdict.value.starts_with("ranks meet at "), is_public) << address;
  }
}

TEST(DoctorClusterTest, ClocksAndDisksAreJudgedWhereTheyAreMeasured) {
  v1::GetServerResponse server;
  server.set_version("0.9");
  server.set_protocol(2);
  server.set_data_dir("/data");
  server.set_disk_bytes(uint64_t{100} << 30);
  server.set_disk_free_bytes(uint64_t{1} << 30);
  v1::ListNodesResponse nodes;
  for (const auto& [name, ahead_ms] :
       {std::pair("node1", int64_t{999}), std::pair("node2", int64_t{-3'000}),
        std::pair("node3", INT64_MIN)}) {
    *nodes.add_nodes() = HealthyNode(name);
    nodes.mutable_nodes()->rbegin()->mutable_health()->set_clock_ahead_ms(ahead_ms);
  }
  nodes.mutable_nodes(0)->mutable_health()->set_disk_bytes(uint64_t{50} << 30);
  nodes.mutable_nodes(0)->mutable_health()->set_disk_free_bytes(1 << 20);
  const auto verdicts = JudgeCluster(server, nodes);
  ASSERT_EQ(verdicts.size(), 4u);
  EXPECT_EQ(verdicts[0].node, "cluster");
  EXPECT_EQ(verdicts[0].verdict.value.find("almost full: "), 0u) << verdicts[0].verdict.value;
  EXPECT_EQ(verdicts[0].verdict.grade, Grade::kWarning);
  EXPECT_EQ(verdicts[1].verdict.value.find("full: "), 0u) << "its clock is off by less than 1 s";
  EXPECT_EQ(verdicts[1].verdict.grade, Grade::kBroken);
  EXPECT_EQ(verdicts[2].verdict.value, "its clock is 3s behind the coordinator's");
  EXPECT_NE(verdicts[2].verdict.fix.find("timedatectl"), std::string::npos);
  EXPECT_EQ(verdicts[3].node, "node3") << "the most that a number can be off";
}

v1::CoordinatorView* AddHead(v1::ListCoordinatorsResponse& list, const std::string& name) {
  v1::CoordinatorView* head = list.add_coordinators();
  head->set_name(name);
  head->set_endpoint(name + ":7700");
  head->set_version("0.9");
  return head;
}

std::string TextOf(const std::vector<NodeVerdict>& verdicts) {
  std::string text;
  for (const NodeVerdict& each : verdicts) {
    text += std::to_string(static_cast<int>(each.verdict.grade)) + " " + each.node + ": " +
            each.verdict.value + "\n";
  }
  return text;
}

TEST(DoctorCoordinatorsTest, EachThatReplacesOthersIsJudged) {
  v1::ListCoordinatorsResponse list;
  AddHead(list, "h1")->set_leads(true);
  AddHead(list, "h2")->set_lag(1);
  v1::CoordinatorView* h3 = AddHead(list, "h3");
  h3->set_version("0.8");
  h3->set_lag(70'000);
  list.set_seen_ms(100'000);
  EXPECT_EQ(TextOf(JudgeCoordinators(list, {{"h3", "Connection refused"}}, 101'000)),
            "0 coordinator h1: leads, 0.9, h1:7700\n"
            "0 coordinator h2: stands by, 1 entry of the log behind, 0.9, h2:7700\n"
            "1 coordinator h3: does not answer at h3:7700: Connection refused\n"
            "1 coordinator h3: version 0.8; h1, which leads, has 0.9\n"
            "1 coordinator h3: 70000 entries of the log behind: a takeover by it takes longer\n");
}

TEST(DoctorCoordinatorsTest, WithoutALeaderOrAnotherTheyAreNotWell) {
  v1::ListCoordinatorsResponse list;
  list.set_answered_by("h2");
  list.set_seen_ms(100'000);
  AddHead(list, "h2");
  EXPECT_EQ(TextOf(JudgeCoordinators(list, {}, 140'000)),
            "2 coordinators: etcd has not answered h2 for 40s\n"
            "2 coordinators: none leads: h2 stands by\n"
            "0 coordinator h2: stands by, 0 entries of the log behind, 0.9, h2:7700\n");
  list.mutable_coordinators(0)->set_leads(true);
  EXPECT_EQ(TextOf(JudgeCoordinators(list, {}, 100'000)),
            "1 coordinators: only h2 is registered: no other can take over\n"
            "0 coordinator h2: leads, 0.9, h2:7700\n");
}

TEST(DoctorCoordinatorsTest, OneThatIsAloneIsNotJudged) {
  v1::ListCoordinatorsResponse list;
  AddHead(list, "h1")->set_leads(true);
  list.set_alone(true);
  EXPECT_TRUE(JudgeCoordinators(list, {}, 100'000).empty());
}

TEST(DoctorClusterTest, ACoordinatorWithoutNodesIsBroken) {
  const auto verdicts = JudgeCluster({}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].verdict.value, "no node is registered");
}

}  // namespace
}  // namespace muster::client::doctor
