// Which torch a process has loaded, from texts that belong to the job.
#include "worker/sampling/framework_probe.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace muster::worker {
namespace {

constexpr char kMaps[] =
    "55d0-55d1 r--p 00000000 08:01 12 /usr/bin/python3.11\n"
    "7f10-7f11 rw-p 00000000 00:00 0\n"
    "7f20-7f21 r-xp 00000000 08:01 13 /opt/venv/my torch/lib/libtorch_cpu.so\n"
    "7f30-7f31 r-xp 00000000 08:01 14 /opt/venv/nvidia/cuda_runtime/lib/libcudart.so.12\n"
    "7f40-7f41 r--p 00000000 00:00 0 [vdso]";

constexpr char kVersionPy[] =
    "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda']\n"
    "__version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n"
    "hip: Optional[str] = None\n";

TEST(FrameworkProbeTest, TheMappedFilesNameTorchAndCuda) {
  const MappedFramework found = FindMapped(kMaps);
  EXPECT_EQ(found.directory, "/opt/venv/my torch");
  EXPECT_EQ(found.cudart, "12");
  EXPECT_EQ(FindMapped("1-2 r /a/lib/libcudart-9335f6a2.so.11.8.89\n").cudart, "11.8");
  for (const char* maps :
       {"", "\n\n", "no path", "1-2 r /libtorch.so\n", "1-2 r /a/lib/libtorch.so (deleted)\n",
        "1-2 r /a/lib/libcudart.so.\n", "1-2 r /a/lib/libcudart.so.x\n", "/",
        "1-2 r /a/lib/libcudart.so...\n"}) {
    EXPECT_EQ(FindMapped(maps).directory, "") << maps;
    EXPECT_EQ(FindMapped(maps).cudart, "") << maps;
  }
}

TEST(FrameworkProbeTest, VersionsAreReadFromTheFrameworksOwnFile) {
  EXPECT_EQ(ParseVersionPy(kVersionPy), (FrameworkVersions{"torch 2.11.0+cu130", "13.0"}));
  EXPECT_EQ(ParseVersionPy("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"),
            (FrameworkVersions{"torch 2.13.0+cpu", "cpu"}));
  EXPECT_EQ(ParseVersionPy("__version__ = '1.13.1'\ncuda = '11.7'\n"),
            (FrameworkVersions{"torch 1.13.1", "11.7"}));
  EXPECT_EQ(ParseBuildVersion("2.4.0+cu118\n"), (FrameworkVersions{"torch 2.4.0+cu118", "11.8"}));
}

TEST(FrameworkProbeTest, WhatIsNoVersionIsNotKept) {
  for (const std::string& text :
       {std::string(), std::string("__version__ ="), std::string("__version__ = 'a"),
        std::string("__version__ = '\033[2J'"), std::string("__version__ = '<b>'"),
        "__version__ = '" + std::string(100, '1') + "'", std::string("x\n__version__")}) {
    EXPECT_EQ(ParseVersionPy(text), FrameworkVersions()) << text;
    EXPECT_EQ(ParseBuildVersion(text), FrameworkVersions()) << text;
  }
  EXPECT_EQ(ParseVersionPy("__version__ = '2.0'\ncuda: str = 'rm -rf'\n").toolkit, "");
}

// /proc with one process, whose root is a folder beside it.
class FakeProc : public ::testing::Test {
 protected:
  FakeProc() {
    std::filesystem::remove_all(proc_);
    std::filesystem::create_directories(process_ + "/root/opt/venv/my torch");
    std::ofstream(process_ + "/maps") << kMaps;
  }
  const std::string proc_ = testing::TempDir() + "/framework-proc";
  const std::string process_ = proc_ + "/7";
  const std::string version_py_ = process_ + "/root/opt/venv/my torch/version.py";
};

TEST_F(FakeProc, AProcessIsReadThroughItsOwnRoot) {
  std::ofstream(version_py_) << kVersionPy;
  EXPECT_EQ(ProbeFramework(7, RankAccount(), proc_),
            (FrameworkVersions{"torch 2.11.0+cu130", "13.0"}));
  EXPECT_FALSE(ProbeFramework(8, RankAccount(), proc_).has_value()) << "it is gone";
}

TEST_F(FakeProc, ALinkLeadsToWhatTheProcessSees) {
  const std::string secret = proc_ + "/secret";
  std::ofstream(secret) << "__version__ = '9.9.secret'\n";
  std::filesystem::create_symlink(secret, version_py_);
  EXPECT_EQ(ProbeFramework(7, RankAccount(), proc_)->framework, "torch") << "not in its root";
  std::filesystem::create_directories(process_ + "/root" + proc_);
  std::ofstream(process_ + "/root" + secret) << kVersionPy;
  EXPECT_EQ(ProbeFramework(7, RankAccount(), proc_)->framework, "torch 2.11.0+cu130");
}

TEST_F(FakeProc, WhatTheRanksAccountMayNotReadIsNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may act as another account";
  std::ofstream(version_py_) << kVersionPy;
  std::filesystem::permissions(version_py_, std::filesystem::perms::owner_read);
  RankAccount account;
  account.ids = {.is_other = true, .uid = 65'534, .gid = 65'534, .groups = {65'534}};
  EXPECT_EQ(ProbeFramework(7, account, proc_)->framework, "torch");
}

TEST_F(FakeProc, AnythingButAFileIsPassedOver) {
  ASSERT_EQ(mkfifo(version_py_.c_str(), 0600), 0);
  EXPECT_EQ(ProbeFramework(7, RankAccount(), proc_), (FrameworkVersions{"torch", "12"}))
      << "without its file of versions, from the name of CUDA's library";
}

TEST_F(FakeProc, AProcessWithoutTorchHasNoFramework) {
  EXPECT_FALSE(ProbeFramework(getpid(), RankAccount()).has_value());
}

}  // namespace
}  // namespace muster::worker
