// Which processes jobctl talks to over a unix socket. The other user is a process with another uid.
#include "client/connection/socket_trust.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "common/files/files.h"

namespace muster::client {
namespace {

constexpr uid_t kVictim = 54'321;
constexpr uid_t kOther = 54'322;

// Runs `work` in a process with that uid; returns its exit code.
int RunAs(uid_t uid, const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0) _exit(99);
    _exit(work());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return -1;
  chmod(path.c_str(), 0777);
  return listen(fd, 8) == 0 ? fd : -1;
}

class SocketTrustTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become two other users";
    char name[] = "/tmp/mstXXXXXX";
    root_ = mkdtemp(name);
    chmod(root_.c_str(), 01777);
  }
  void TearDown() override {
    if (!root_.empty()) common::RemoveTree(root_).IgnoreError();
  }
  std::string Socket() const { return root_ + "/d/coordinator.sock"; }
  // The directory and a listening socket in it, both owned by `uid`. The descriptor stays in this
  // process: the kernel records who called listen.
  void MakeListener(uid_t owner, mode_t mode, uid_t listener) {
    ASSERT_EQ(mkdir((root_ + "/d").c_str(), 0700), 0);
    ASSERT_EQ(chmod((root_ + "/d").c_str(), 0777), 0);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    listener_ = fork();
    if (listener_ == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(listener) != 0 || setuid(listener) != 0) _exit(99);
      const char made = Listen(Socket()) >= 0 ? '1' : '0';
      if (write(ready[1], &made, 1) != 1) _exit(1);
      while (true) pause();
    }
    char made = '0';
    ASSERT_EQ(read(ready[0], &made, 1), 1);
    ASSERT_EQ(made, '1');
    close(ready[0]);
    close(ready[1]);
    ASSERT_EQ(chown((root_ + "/d").c_str(), owner, owner), 0);
    ASSERT_EQ(chmod((root_ + "/d").c_str(), mode), 0);
  }
  void EndListener() {
    kill(listener_, SIGKILL);
    waitpid(listener_, nullptr, 0);
  }
  // 0: trusted; 4: refused with JC1304; anything else: a different error.
  static int Judge(const absl::Status& status) {
    if (status.ok()) return 0;
    return status.message().find("[JC1304]") == 0 ? 4 : 5;
  }
  int PrivateByVictim() {
    return RunAs(kVictim, [&] { return Judge(CheckPrivateSocket(root_ + "/d", Socket())); });
  }
  int ServerByVictim() {
    return RunAs(kVictim, [&] { return Judge(CheckServerSocket(Socket())); });
  }

  std::string root_;
  pid_t listener_ = -1;
};

TEST_F(SocketTrustTest, ADirectoryThatAnotherUserMadeFirstIsRefused) {
  MakeListener(kOther, 0777, kOther);
  EXPECT_EQ(PrivateByVictim(), 4);
  EXPECT_EQ(ServerByVictim(), 4);
  EndListener();
}

TEST_F(SocketTrustTest, OurOwnSocketInOurOwnDirectoryIsTrusted) {
  MakeListener(kVictim, 0700, kVictim);
  EXPECT_EQ(PrivateByVictim(), 0);
  EXPECT_EQ(ServerByVictim(), 0);
  EndListener();
}

TEST_F(SocketTrustTest, ALinkOrADirectoryThatOthersMayEnterIsRefused) {
  MakeListener(kVictim, 0755, kVictim);
  EXPECT_EQ(PrivateByVictim(), 4);
  ASSERT_EQ(chmod((root_ + "/d").c_str(), 0700), 0);
  ASSERT_EQ(rename((root_ + "/d").c_str(), (root_ + "/real").c_str()), 0);
  ASSERT_EQ(symlink("real", (root_ + "/d").c_str()), 0);
  EXPECT_EQ(PrivateByVictim(), 4);
  EndListener();
}

TEST_F(SocketTrustTest, AnotherUsersListenerInOurDirectoryIsRefused) {
  MakeListener(kVictim, 0700, kOther);
  ASSERT_EQ(chown(Socket().c_str(), kVictim, kVictim), 0);
  EXPECT_EQ(PrivateByVictim(), 4);
  EXPECT_EQ(ServerByVictim(), 4);
  EndListener();
}

TEST_F(SocketTrustTest, RootIsTrusted) {
  MakeListener(0, 0755, 0);
  EXPECT_EQ(ServerByVictim(), 0);
  EndListener();
}

TEST_F(SocketTrustTest, ANamedCoordinatorIsTrustedWhereOnlyItsUserWrites) {
  MakeListener(kOther, 0755, kOther);
  EXPECT_EQ(ServerByVictim(), 0);
  ASSERT_EQ(chmod((root_ + "/d").c_str(), 0775), 0);
  EXPECT_EQ(ServerByVictim(), 4);
  // Sticky: only the socket's owner can replace it.
  ASSERT_EQ(chmod((root_ + "/d").c_str(), 01777), 0);
  EXPECT_EQ(ServerByVictim(), 4);
  EndListener();
}

TEST_F(SocketTrustTest, NobodyListeningIsLeftToTheConnection) {
  EXPECT_EQ(RunAs(kVictim, [&] { return Judge(CheckServerSocket(root_ + "/none")); }), 0);
}

}  // namespace
}  // namespace muster::client
