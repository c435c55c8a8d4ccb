// Which limits a node can enforce and how ranks get them, over a kernel's cgroups made for the test.
// The machine's own: tests/shim/rank_limits_test.cc, e2e limits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/files/cgroup_files.h"
#include "common/files/files.h"
#include "common/kernel/kill_ladder.h"
#include "common/text/strings.h"
#include "worker/limits/limit_host.h"
#include "worker/limits/rank_groups.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int kSelf = 77;
constexpr char kV2Mount[] =
    "30 20 0:27 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1Mounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";

// A kernel's cgroups as far as they matter here: controllers are passed down, and a cgroup that
// passes them to its children holds no process.
class FakeCgroups final : public CgroupFiles {
 public:
  std::map<std::string, std::string> files;
  std::set<std::string> unwritable, delegated, directories;
  bool under_systemd = false;
  unsigned user = 0;

  void Own(const std::string& cgroups, const std::string& mounts) {
    files["/proc/self/cgroup"] = cgroups;
    files["/proc/self/mountinfo"] = mounts;
  }
  void AddV2(const std::string& directory, const std::string& controllers, bool is_root = false) {
    directories.insert(directory);
    files[directory + "/cgroup.procs"] = "";
    files[directory + "/cgroup.controllers"] = controllers + "\n";
    files[directory + "/cgroup.subtree_control"] = "\n";
    if (!is_root) files[directory + "/cgroup.type"] = "domain\n";
  }
  void AddV1(const std::string& directory) {
    directories.insert(directory);
    files[directory + "/cgroup.procs"] = "";
  }

  void AddLimitFiles(const std::string& directory, const std::string& controllers) {
    if (controllers.find("cpu") != std::string::npos) files.try_emplace(directory + "/cpu.max");
    if (controllers.find("memory") == std::string::npos) return;
    for (const char* file : {"memory.max", "memory.swap.max", "memory.oom.group"})
      files.try_emplace(StrCat(directory, "/", file));
  }

  std::string Read(const std::string& path) const override {
    const auto found = files.find(path);
    return found == files.end() ? "" : found->second;
  }
  bool Exists(const std::string& path) const override { return files.contains(path); }
  int Write(const std::string& path, std::string_view text) override {
    if (!files.contains(path)) return ENOENT;
    const std::string directory = path.substr(0, path.rfind('/'));
    if (unwritable.contains(directory)) return EACCES;
    if (path.ends_with("/cgroup.subtree_control")) {
      if (!files[directory + "/cgroup.procs"].empty() && Exists(directory + "/cgroup.type"))
        return EBUSY;
      files[path] += std::string(text.substr(1)) + " ";
      for (const std::string& child : directories) {
        if (child.substr(0, child.rfind('/')) == directory) AddLimitFiles(child, files[path]);
      }
      return 0;
    }
    if (path.ends_with("/cgroup.procs")) {
      if (files[directory + "/cgroup.subtree_control"].size() > 1) return EBUSY;
      const std::string line = std::string(text) + "\n";
      for (auto& [name, content] : files) {
        const size_t at = content.find(line);
        if (name.ends_with("/cgroup.procs") && at != std::string::npos)
          content.erase(at, line.size());
      }
      files[path] += line;
      return 0;
    }
    files[path] = std::string(text);
    return 0;
  }
  int MakeDirectory(const std::string& path) override {
    const std::string parent = path.substr(0, path.rfind('/'));
    if (directories.contains(path)) return 0;
    if (unwritable.contains(parent)) return EACCES;
    if (!directories.contains(parent)) return ENOENT;
    directories.insert(path);
    if (parent.find("/sys/fs/cgroup/memory") == 0) {
      for (const char* file : {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"})
        files[StrCat(path, "/", file)] = "";
    } else if (parent.find("/sys/fs/cgroup/cpu") == 0) {
      for (const char* file : {"cpu.cfs_quota_us", "cpu.cfs_period_us"})
        files[StrCat(path, "/", file)] = "";
    } else {
      const std::string passed = files[parent + "/cgroup.subtree_control"];
      AddV2(path, passed);
      AddLimitFiles(path, passed);
    }
    files[path + "/cgroup.procs"] = "";
    return 0;
  }
  void RemoveDirectory(const std::string& path) override {
    directories.erase(path);
    std::erase_if(files, [&](const auto& file) { return file.first.starts_with(path + "/"); });
  }
  bool IsWritable(const std::string& directory) const override {
    return directories.contains(directory) && !unwritable.contains(directory);
  }
  bool IsDelegated(const std::string& directory) const override {
    return delegated.contains(directory);
  }
  bool UnderSystemd() const override { return under_systemd; }
  int ProcessId() const override { return kSelf; }
  unsigned UserId() const override { return user; }
};

FakeCgroups V2(const std::string& own, const std::string& controllers) {
  FakeCgroups kernel;
  kernel.Own("0::" + own + "\n", kV2Mount);
  kernel.AddV2("/sys/fs/cgroup", controllers, true);
  std::string path = "/sys/fs/cgroup";
  for (size_t at = 1, next = 0; at < own.size(); at = next + 1) {
    next = std::min(own.find('/', at), own.size());
    path += "/" + own.substr(at, next - at);
    kernel.AddV2(path, controllers);
  }
  if (own != "/") kernel.files[path + "/cgroup.procs"] = StrCat(kSelf, "\n");
  return kernel;
}

TEST(LimitHostTest, InAContainerOfItsOwnTheWorkerEntersALeafAndDividesItsCgroup) {
  FakeCgroups kernel = V2("/pod", "cpuset cpu io memory pids");
  const LimitHost host = PrepareLimits(kernel);
  EXPECT_EQ(host.memory.base, "/sys/fs/cgroup/pod") << host.memory.why;
  EXPECT_EQ(host.cpu.base, "/sys/fs/cgroup/pod");
  EXPECT_EQ(host.v2_base, "/sys/fs/cgroup/pod");
  EXPECT_EQ(kernel.files["/sys/fs/cgroup/pod/muster-worker/cgroup.procs"], StrCat(kSelf, "\n"));
  EXPECT_EQ(kernel.files["/sys/fs/cgroup/pod/cgroup.procs"], "");
  EXPECT_EQ(DescribeLimitHost(host).how(), "cgroup v2");
  EXPECT_FALSE(DescribeLimitHost(host).has_no_memory());

  // A later start finds itself in the leaf, beside supervisors of earlier ones.
  kernel.files["/proc/self/cgroup"] = "0::/pod/muster-worker\n";
  kernel.files["/sys/fs/cgroup/pod/muster-worker/cgroup.procs"] = "77\n12\n13\n";
  EXPECT_EQ(PrepareLimits(kernel).memory.base, "/sys/fs/cgroup/pod");
}

TEST(LimitHostTest, InitEntersTheLeafBeforeItsWorkerWhichThenDividesTheContainersCgroup) {
  FakeCgroups kernel = V2("/", "cpu memory");
  kernel.files["/sys/fs/cgroup/cgroup.type"] = "domain\n";  // a cgroup namespace: not the real root
  kernel.files["/sys/fs/cgroup/cgroup.procs"] = StrCat(kSelf, "\n");
  EXPECT_EQ(EnterLeafForLimits(kernel), "");
  EXPECT_EQ(kernel.files["/sys/fs/cgroup/muster-worker/cgroup.procs"], StrCat(kSelf, "\n"));
  EXPECT_EQ(kernel.files["/sys/fs/cgroup/cgroup.procs"], "");
  kernel.files["/proc/self/cgroup"] = "0::/muster-worker\n";
  kernel.files["/sys/fs/cgroup/muster-worker/cgroup.procs"] = "1\n77\n";
  EXPECT_EQ(PrepareLimits(kernel).memory.base, "/sys/fs/cgroup");

  FakeCgroups closed = V2("/pod", "cpu memory");
  closed.unwritable = {"/sys/fs/cgroup/pod", "/sys/fs/cgroup"};
  EXPECT_EQ(EnterLeafForLimits(closed), "its cgroup /sys/fs/cgroup/pod is not writable for user 0");

  FakeCgroups older;
  older.Own("4:memory:/\n2:cpu,cpuacct:/\n", kV1Mounts);
  EXPECT_EQ(EnterLeafForLimits(older), "") << "v1 needs no leaf";
}

TEST(LimitHostTest, UnderSystemdTheLeafIsItsSubgroup) {
  FakeCgroups kernel = V2("/system.slice/muster-worker.service/worker", "cpu memory");
  kernel.under_systemd = true;
  kernel.delegated = {"/sys/fs/cgroup/system.slice/muster-worker.service"};
  const LimitHost host = PrepareLimits(kernel);
  EXPECT_EQ(host.memory.base, "/sys/fs/cgroup/system.slice/muster-worker.service")
      << host.memory.why;
  EXPECT_EQ(host.v2_base, host.memory.base);
}

TEST(LimitHostTest, InADelegatedScopeTheWorkerMakesItsLeafBecauseNothingStartsItThereAgain) {
  FakeCgroups kernel = V2("/user.slice/run-7.scope", "cpu memory");
  kernel.under_systemd = true;
  kernel.delegated = {"/sys/fs/cgroup/user.slice/run-7.scope"};
  EXPECT_EQ(PrepareLimits(kernel).memory.base, "/sys/fs/cgroup/user.slice/run-7.scope");
}

struct Refusal {
  std::string name;
  FakeCgroups kernel;
  std::string why;
  std::string fix;
};

std::vector<Refusal> Refusals() {
  std::vector<Refusal> all;
  const std::string unit = "/system.slice/muster-worker.service";
  all.push_back({"nothing is mounted", {}, "no cgroup hierarchy is mounted", "mount cgroup v2"});

  all.push_back({"read-only", V2("/pod", "cpu memory"),
                 "its cgroup /sys/fs/cgroup/pod is not writable for user 0",
                 "container with its own writable cgroup"});
  all.back().kernel.unwritable = {"/sys/fs/cgroup/pod", "/sys/fs/cgroup"};

  all.push_back({"not delegated", V2(unit, "cpu memory"),
                 "systemd has not delegated its cgroup /sys/fs/cgroup" + unit,
                 "DelegateSubgroup=worker"});
  all.back().kernel.under_systemd = true;

  all.push_back({"delegated without a subgroup", V2(unit, "cpu memory"),
                 "where systemd could not restart it beside limited ranks",
                 "DelegateSubgroup=worker in the worker's unit (systemd 254 or newer)"});
  all.back().kernel.under_systemd = true;
  all.back().kernel.delegated = {"/sys/fs/cgroup" + unit};

  all.push_back({"not alone", V2("/pod", "cpu memory"),
                 "its cgroup /sys/fs/cgroup/pod holds 2 other processes, so it cannot be divided",
                 "by `muster-worker init` in a container"});
  all.back().kernel.files["/sys/fs/cgroup/pod/cgroup.procs"] = "1\n77\n80\n";

  all.push_back({"no controller", V2("/pod", "hugetlb"),
                 "cgroup /sys/fs/cgroup/pod has no memory controller (it has: hugetlb)",
                 "echo +memory"});

  FakeCgroups v1;
  v1.Own("4:memory:/box\n2:cpu,cpuacct:/box\n", kV1Mounts);
  v1.AddV1("/sys/fs/cgroup/memory/box");
  v1.AddV1("/sys/fs/cgroup/cpu/box");
  v1.unwritable = {"/sys/fs/cgroup/memory/box"};
  v1.user = 1000;
  all.push_back({"v1, read-only", v1,
                 "its v1 cgroup /sys/fs/cgroup/memory/box is not writable for user 1000", "root"});
  return all;
}

TEST(LimitHostTest, WhatIsMissingIsNamedWithItsFix) {
  for (Refusal& refusal : Refusals()) {
    const LimitHost host = PrepareLimits(refusal.kernel);
    EXPECT_EQ(host.memory.base, "") << refusal.name;
    EXPECT_NE(host.memory.why.find(refusal.why), std::string::npos)
        << refusal.name << ": " << host.memory.why;
    EXPECT_NE(host.memory.fix.find(refusal.fix), std::string::npos)
        << refusal.name << ": " << host.memory.fix;
    EXPECT_EQ(DescribeLimitHost(host).no_memory().why(), host.memory.why) << refusal.name;
  }
}

TEST(LimitHostTest, AWorkerThatCannotDivideItsCgroupStaysWhereItWas) {
  FakeCgroups kernel = V2("/pod", "hugetlb");
  EXPECT_EQ(PrepareLimits(kernel).v2_base, "");
  EXPECT_EQ(kernel.files["/sys/fs/cgroup/pod/cgroup.procs"], StrCat(kSelf, "\n"));
  EXPECT_FALSE(kernel.directories.contains("/sys/fs/cgroup/pod/muster-worker"));
}

TEST(LimitHostTest, EachV1ControllerIsJudgedForItself) {
  FakeCgroups kernel;
  kernel.Own("4:memory:/\n2:cpu,cpuacct:/box\n0::/\n", StrCat(kV1Mounts, kV2Mount));
  kernel.AddV1("/sys/fs/cgroup/memory");
  kernel.AddV1("/sys/fs/cgroup/cpu/box");
  kernel.unwritable = {"/sys/fs/cgroup/memory"};
  const LimitHost host = PrepareLimits(kernel);
  EXPECT_EQ(host.cpu.base, "/sys/fs/cgroup/cpu/box") << host.cpu.why;
  EXPECT_FALSE(host.cpu.is_v2);
  EXPECT_EQ(host.memory.base, "");
  const v1::LimitFacts facts = DescribeLimitHost(host);
  EXPECT_EQ(facts.how(), "cgroup v1");
  EXPECT_TRUE(facts.has_no_memory());
  EXPECT_FALSE(facts.has_no_cpus());
}

TEST(LimitHostTest, UnderSystemdV1NeedsTheUnitsDelegation) {
  FakeCgroups kernel;
  kernel.Own("4:memory:/u\n2:cpu,cpuacct:/u\n1:name=systemd:/u\n", kV1Mounts);
  kernel.AddV1("/sys/fs/cgroup/memory/u");
  kernel.AddV1("/sys/fs/cgroup/cpu/u");
  kernel.under_systemd = true;
  EXPECT_NE(PrepareLimits(kernel).memory.why.find("systemd has not delegated"), std::string::npos);
  kernel.delegated = {"/sys/fs/cgroup/systemd/u"};
  EXPECT_EQ(PrepareLimits(kernel).memory.base, "/sys/fs/cgroup/memory/u");
}

TEST(LimitHostTest, WhatAWorkerReportsIsPrintableAndShort) {
  LimitHost host;
  host.memory.why = StrCat("\x1b[31m", std::string(1'000, 'x'));
  host.memory.fix = "y";
  const v1::LimitFacts facts = DescribeLimitHost(host);
  EXPECT_LE(facts.no_memory().why().size(), common::kFactBytesMax);
  EXPECT_EQ(facts.no_memory().why().find('\x1b'), std::string::npos);
}

// ---------------------------------------------------------------- cgroup paths

TEST(CgroupDirectoryTest, IsWithinWhatIsMountedOrNothing) {
  const auto find = [](const char* path, const char* root) {
    return common::CgroupDirectory(
        StrCat("4:memory:", path, "\n"),
        StrCat("32 31 0:29 ", root, " /m rw - cgroup cgroup rw,memory\n"), "memory");
  };
  EXPECT_EQ(find("/", "/"), "/m");
  EXPECT_EQ(find("/docker/abc", "/docker/abc"), "/m");
  EXPECT_EQ(find("/docker/abc/x", "/docker/abc"), "/m/x");
  EXPECT_EQ(find("/docker/abcd", "/docker/abc"), "");
  EXPECT_EQ(find("/../other", "/"), "");
  EXPECT_EQ(common::CgroupDirectory("garbage\n4:memory\n::\n", "x - cgroup", "memory"), "");
  EXPECT_EQ(common::CgroupDirectory("4:memory:/\n",
                                    "32 31 0:29 / /m rw - cgroup cgroup rw,memoryx\n", "memory"),
            "");
}

// ---------------------------------------------------------------- ranks

common::ShimLaunch Order(uint32_t first, uint32_t ranks) {
  common::ShimLaunch order;
  order.mark = "7-2-0123456789abcdef-0123456789abcdef";
  for (uint32_t i = 0; i < ranks; ++i) order.ranks.emplace_back().rank = first + i;
  return order;
}

v1::RankLimits Limits(uint32_t cpu_millis, uint64_t memory_bytes) {
  v1::RankLimits limits;
  limits.set_cpu_millis(cpu_millis);
  limits.set_memory_bytes(memory_bytes);
  return limits;
}

TEST(RankGroupsTest, OnV2EachRankGetsOneCgroupWithBothLimits) {
  FakeCgroups kernel = V2("/pod", "cpu memory");
  const LimitHost host = PrepareLimits(kernel);
  common::ShimLaunch order = Order(4, 2);
  order.cgroup_dir = "/sys/fs/cgroup/pod/muster-" + order.mark;
  ASSERT_TRUE(LimitRanks(kernel, host, Limits(1'500, 512 << 20), &order).ok());
  const std::string rank = order.cgroup_dir + "/rank-5";
  EXPECT_EQ(order.ranks[1].limit_dirs, std::vector<std::string>{rank});
  EXPECT_TRUE(order.ranks[1].limits_memory);
  EXPECT_TRUE(order.limit_dirs.empty());  // removed with the attempt's own
  EXPECT_EQ(kernel.files[rank + "/memory.max"], "536870912");
  EXPECT_EQ(kernel.files[rank + "/memory.swap.max"], "0");
  EXPECT_EQ(kernel.files[rank + "/memory.oom.group"], "1");
  EXPECT_EQ(kernel.files[rank + "/cpu.max"], "150000 100000");
}

LimitHost OnV1() {
  LimitHost host;
  host.memory.base = "/sys/fs/cgroup/memory/box";
  host.cpu.base = "/sys/fs/cgroup/cpu/box";
  return host;
}

TEST(RankGroupsTest, OnV1MemoryComesFirstAndSwapCountsWhereItIsAccounted) {
  FakeCgroups kernel;
  kernel.AddV1("/sys/fs/cgroup/memory/box");
  kernel.AddV1("/sys/fs/cgroup/cpu/box");
  common::ShimLaunch order = Order(0, 1);
  ASSERT_TRUE(LimitRanks(kernel, OnV1(), Limits(250, 512 << 20), &order).ok());
  ASSERT_EQ(order.limit_dirs.size(), 2u);
  ASSERT_EQ(order.ranks[0].limit_dirs.size(), 2u);
  EXPECT_EQ(order.ranks[0].limit_dirs[0],
            StrCat("/sys/fs/cgroup/memory/box/muster-", order.mark, "/rank-0"));
  EXPECT_EQ(kernel.files[order.ranks[0].limit_dirs[0] + "/memory.memsw.limit_in_bytes"],
            "536870912");
  EXPECT_EQ(kernel.files[order.ranks[0].limit_dirs[1] + "/cpu.cfs_quota_us"], "25000");

  common::ShimLaunch cpus_only = Order(0, 1);
  ASSERT_TRUE(LimitRanks(kernel, OnV1(), Limits(250, 0), &cpus_only).ok());
  EXPECT_FALSE(cpus_only.ranks[0].limits_memory);
  EXPECT_EQ(cpus_only.ranks[0].limit_dirs.size(), 1u);
}

TEST(RankGroupsTest, NothingStartsWhereALimitCannotBeSet) {
  FakeCgroups kernel;
  common::ShimLaunch order = Order(0, 1);
  const absl::Status gone = LimitRanks(kernel, OnV1(), Limits(0, 512 << 20), &order);
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable) << gone;
  EXPECT_NE(gone.message().find("/sys/fs/cgroup/memory/box/muster-"), std::string::npos) << gone;

  LimitHost host;
  host.memory = {.base = "", .is_v2 = true, .why = "it is read-only", .fix = "mount it"};
  const absl::Status cannot = LimitRanks(kernel, host, Limits(0, 512 << 20), &order);
  EXPECT_EQ(cannot, absl::FailedPreconditionError(
                        "it cannot limit memory: it is read-only; fix: mount it"));
}

TEST(RankGroupsTest, AJobWithoutLimitsNeedsNothing) {
  FakeCgroups kernel;
  common::ShimLaunch order = Order(0, 1);
  EXPECT_TRUE(LimitRanks(kernel, LimitHost(), {}, &order).ok());
  EXPECT_TRUE(order.ranks[0].limit_dirs.empty());
}

// ---------------------------------------------------------------- memory events

class MemoryEventsTest : public testing::Test {
 protected:
  MemoryEventsTest() {
    char name[] = "/tmp/mlimits-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~MemoryEventsTest() override { EXPECT_TRUE(common::RemoveTree(directory_).ok()); }
  void File(const std::string& name, const std::string& content) {
    ASSERT_TRUE(common::WriteFileDurably(directory_ + "/" + name, content).ok());
  }
  common::MemoryEvents Events() const { return common::ReadMemoryEvents(directory_); }

  std::string directory_;
};

TEST_F(MemoryEventsTest, AKillAtTheRanksOwnLimitIsToldFromOneOfTheNodes) {
  EXPECT_EQ(Events().kills, -1);  // not there
  File("memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(Events().kills, 2);
  EXPECT_TRUE(Events().hit_limit);
  File("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n");
  EXPECT_EQ(Events().kills, 1);
  EXPECT_FALSE(Events().hit_limit);
}

TEST_F(MemoryEventsTest, V1CountsRefusalsOrShowsThePeak) {
  File("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  File("memory.failcnt", "0\n");
  EXPECT_EQ(Events().kills, 1);
  EXPECT_FALSE(Events().hit_limit);
  File("memory.failcnt", "9\n");
  EXPECT_TRUE(Events().hit_limit);
  File("memory.failcnt", "0\n");
  File("memory.limit_in_bytes", "67108864\n");
  File("memory.max_usage_in_bytes", "60000000\n");
  EXPECT_FALSE(Events().hit_limit);
  File("memory.max_usage_in_bytes", "67104768\n");
  EXPECT_TRUE(Events().hit_limit);
}

TEST_F(MemoryEventsTest, NumbersOutOfRangeAreUnknown) {
  File("memory.events", "oom_kill -3\n");
  EXPECT_EQ(Events().kills, -1);
  File("memory.events", std::string(200'000, 'x') + "\noom_kill 3\n");
  EXPECT_EQ(Events().kills, -1);
  File("memory.events", "");
  EXPECT_EQ(Events().kills, -1);
}

}  // namespace
}  // namespace muster::worker
