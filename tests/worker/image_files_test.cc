// What images may leave on a node, and what the tools that read them may do there.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/containers/layer_access.h"
#include "worker/containers/mount_sources.h"
#include "worker/launch/marked_processes.h"
#include "worker/preparation/image_tools.h"
#include "worker/preparation/without_rights.h"

namespace muster::worker {
namespace {

using common::StrCat;
namespace fs = std::filesystem;

int PidFd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

TEST(MountSources, TheKernelsFilesAndOtherNamesOfTheWorkersAreNotShown) {
  const std::string mounts =
      "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "21 20 0:5 / /proc rw shared:1 - proc proc rw\n"
      "22 20 8:1 /var/lib/muster /srv/alias rw - ext4 /dev/sda1 rw\n"
      "23 20 8:1 /var/lib/muster/attempts /srv/inside rw - ext4 /dev/sda1 rw\n"
      "24 20 8:17 / /data rw - xfs /dev/sdb1 rw\n"
      "25 24 0:30 / /data/root/sys rw - sysfs sysfs rw\n"
      "26 20 8:1 /home /data/with\\040blank rw - ext4 /dev/sda1 rw\n"
      "27 20 8:1 / /whole rw - ext4 /dev/sda1 rw\n";
  const auto why = [&mounts](const std::string& source) {
    return WhyNoSource(mounts, source, {"/var/lib/muster"});
  };
  for (const char* fine :
       {"/home/alice", "/data/set", "/data/with blank/x", "/var/lib/other", "/var/lib/muster2"})
    EXPECT_EQ(why(fine), "") << fine;
  for (const char* source : {"/proc", "/proc/sys/kernel", "/data/root", "/data"})
    EXPECT_NE(why(source).find("the kernel's own files"), std::string::npos) << source;
  for (const char* source : {"/srv/alias", "/srv/alias/attempts/1-0", "/srv/inside", "/srv",
                             "/whole/var", "/whole/var/lib/muster/code", "/var/lib"})
    EXPECT_NE(why(source).find("under another name"), std::string::npos) << source << why(source);
  EXPECT_EQ(why("/whole/home"), "");
}

class ImageFilesTest : public testing::Test {
 protected:
  ImageFilesTest() {
    char name[] = "/tmp/mifXXXXXX";
    base_ = mkdtemp(name);
  }
  ~ImageFilesTest() override { common::RemoveTree(base_).IgnoreError(); }
  std::string Put(const std::string& name, mode_t mode) {
    const std::string path = base_ + "/" + name;
    std::ofstream(path) << "x";
    chmod(path.c_str(), mode);
    return path;
  }
  mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  ToolEnd Run(const std::string& script, bool stopped = false, uint64_t bytes_max = 1 << 20) {
    return RunTool(
        {.words = {"/bin/sh", "-c", script}, .grows = base_, .bytes_max = bytes_max},
        {.key = {}, .say = [](const std::string&) {}, .stopped = [=] { return stopped; }});
  }
  std::string base_;
};

TEST_F(ImageFilesTest, LosesSetIdBitsAndCapabilitiesButFollowsNoLink) {
  char outside[] = "/tmp/mifXXXXXX";
  const int fd = mkstemp(outside);
  ASSERT_GE(fd, 0);
  fchmod(fd, 04755);
  close(fd);
  fs::create_directory(base_ + "/d");
  const std::string set_id = Put("d/set-id", 06755), plain = Put("plain", 0640);
  chmod((base_ + "/d").c_str(), 02775);
  fs::create_symlink(outside, base_ + "/d/link");
  // cap_setuid=ep. Source: linux/capability.h, vfs_cap_data of revision 2.
  const uint32_t capability[] = {0x02000001, 1U << 7, 0, 0, 0};
  const bool has_capability =
      setxattr(plain.c_str(), "security.capability", capability, sizeof capability, 0) == 0;
  ASSERT_EQ(has_capability, geteuid() == 0);
  ASSERT_TRUE(TakeRights(base_, 100).ok());
  EXPECT_EQ(ModeOf(set_id), 0755u);
  EXPECT_EQ(ModeOf(base_ + "/d"), 0775u);
  EXPECT_EQ(ModeOf(plain), 0640u);
  EXPECT_EQ(ModeOf(outside), 04755u);
  EXPECT_LT(getxattr(plain.c_str(), "security.capability", nullptr, 0), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(TakeRights(base_, 2).status()));
  unlink(outside);
}

TEST_F(ImageFilesTest, AToolThatFillsTheDiskIsStopped) {
  const ToolEnd end = Run(StrCat("head -c 50000000 /dev/zero >", base_, "/big; exec sleep 1000"));
  EXPECT_TRUE(absl::IsResourceExhausted(end.status)) << end.status;
  EXPECT_NE(end.status.message().find("sh: it has more than 1.0 MB"), std::string::npos)
      << end.status;
}

TEST_F(ImageFilesTest, HowAToolEndedTellsWhetherAnotherTryHelps) {
  EXPECT_TRUE(Run("echo fine").status.ok());
  EXPECT_EQ(Run("echo fine").out, "fine\n");
  const ToolEnd failed = Run("echo first >&2; echo no route to host >&2; exit 3");
  EXPECT_TRUE(absl::IsUnavailable(failed.status));
  EXPECT_TRUE(failed.exited);
  EXPECT_EQ(failed.status.message(), "sh: it exited with 3: no route to host");
  EXPECT_TRUE(absl::IsNotFound(Run("echo manifest unknown >&2; exit 1").status));
  EXPECT_FALSE(Run("kill -9 $$").exited);
  EXPECT_TRUE(absl::IsCancelled(Run("exec sleep 1000", /*stopped=*/true).status));
}

TEST_F(ImageFilesTest, OneAccountMayPassThroughAndNobodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "takes root";
  chmod(base_.c_str(), 0755);
  const std::string closed = base_ + "/closed";
  fs::create_directory(closed);
  std::ofstream(closed + "/file") << "x";
  const absl::Status opened = LetPass(closed, 4321);
  if (absl::IsUnimplemented(opened)) GTEST_SKIP() << opened;
  ASSERT_TRUE(opened.ok()) << opened;
  const auto can = [&](uid_t uid, const std::string& path, int mode) {
    const pid_t child = fork();
    if (child == 0) {
      const bool became = setresgid(0, 0, 0) == 0 && setresuid(uid, uid, uid) == 0;
      _exit(became ? (access(path.c_str(), mode) == 0 ? 0 : 1) : 2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(can(4321, closed + "/file", R_OK), 0);
  EXPECT_EQ(can(4321, closed, R_OK), 1);
  EXPECT_EQ(can(4321, closed, W_OK), 1);
  EXPECT_EQ(can(1234, closed + "/file", R_OK), 1);
}

TEST_F(ImageFilesTest, AFamilyIsKilledWhateverItsSessions) {
  const std::string pids = base_ + "/pids";
  ASSERT_EQ(mkfifo(pids.c_str(), 0600), 0);
  const std::string script = StrCat("setsid sh -c 'env -i sleep 1000 & echo $! $$ >", pids,
                                    "; exec sleep 1000' & exec sleep 1000");
  const pid_t leader = fork();
  if (leader == 0) {
    execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    _exit(1);
  }
  pid_t inner = 0, outer = 0;
  std::ifstream(pids) >> inner >> outer;
  ASSERT_GT(outer, 0);
  const common::UniqueFd ends[] = {common::UniqueFd(PidFd(inner)), common::UniqueFd(PidFd(outer))};
  KillBelow(leader);
  int status = 0;
  ASSERT_EQ(waitpid(leader, &status, 0), leader);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  for (const common::UniqueFd& end : ends) {
    pollfd ended{end.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, 20'000), 1);
  }
}

}  // namespace
}  // namespace muster::worker
