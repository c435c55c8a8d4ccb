// Who gets in: real sockets on the loopback interface, because the kernel is asked whose they are.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "rendezvous/peer_account.h"
#include "rendezvous/requests.h"
#include "rendezvous/root.h"

namespace muster::rendezvous {
namespace {

constexpr uid_t kNobody = 65534;

common::UniqueFd Bound(uint16_t* port) {
  common::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

int Connected(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? fd : -1;
}

std::string Greeting() {
  std::string bytes(1, static_cast<char>(Op::kValidate));
  bytes.append(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  bytes.push_back(static_cast<char>(Op::kSet));
  AppendText(&bytes, "/key");
  AppendText(&bytes, "of a stranger");
  bytes.push_back(static_cast<char>(Op::kPing));
  bytes.append("abcd");
  return bytes;
}

// Runs in a child, of another account if it is given. Returns its exit status.
pid_t InChild(uid_t account, const std::function<int()>& run) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (account != 0 && setuid(account) != 0) _exit(99);
  _exit(run());
}

int StatusOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// 4: it was answered, 0: the connection was closed without an answer.
int Greets(uint16_t port) {
  const int fd = Connected(port);
  if (fd < 0) return 98;
  const std::string bytes = Greeting();
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return 0;
  char answer[64];
  const ssize_t count = recv(fd, answer, sizeof answer, 0);
  return count < 0 ? 0 : static_cast<int>(count);
}

struct Store {
  Store(uint32_t account, bool has_network) {
    common::UniqueFd network;
    if (has_network) network = Bound(&network_port);
    root = std::make_unique<Root>(
        loop,
        Root::Setup{.network = std::move(network), .secret = std::string(32, 's'), .nodes = 2},
        nullptr);
    root->clients().Listen(Bound(&port), 0, account);
  }
  // Serves until the child has ended; its exit status, or -2 after a minute.
  int ServeUntilEnd(pid_t child) {
    int status = -2;
    int64_t begun_ms = 0;
    loop.Run([&](int64_t now_ms) {
      if (begun_ms == 0) begun_ms = now_ms;
      root->Tick(now_ms);
      int ended = 0;
      if (waitpid(child, &ended, WNOHANG) == child) {
        status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
        loop.Stop();
      }
      if (now_ms - begun_ms > 60'000) loop.Stop();
      loop.TickIn(1);
    });
    return status;
  }

  Loop loop;
  uint16_t port = 0, network_port = 0;
  std::unique_ptr<Root> root;
};

bool IsRoot() { return geteuid() == 0; }

TEST(Strangers, AProcessOfTheJobsAccountGetsIn) {
  Store store(getuid(), false);
  EXPECT_EQ(store.ServeUntilEnd(InChild(0, [&] { return Greets(store.port); })), 4);
}

TEST(Strangers, AProcessOfAnotherAccountIsClosedUnanswered) {
  if (!IsRoot()) GTEST_SKIP() << "needs root, to be another account";
  Store store(kNobody - 1, false);
  EXPECT_EQ(store.ServeUntilEnd(InChild(kNobody, [&] { return Greets(store.port); })), 0);
}

TEST(Strangers, APeerOnTheNetworkPortWithoutTheSecretIsClosedUnanswered) {
  Store store(getuid(), true);
  // A TLS alert may come back, but nothing of the store.
  const int count = store.ServeUntilEnd(InChild(0, [&] { return Greets(store.network_port); }));
  EXPECT_TRUE(count == 0 || count == 7) << count;
}

TEST(Strangers, TheAccountOfAPeerIsItsProcesss) {
  if (!IsRoot()) GTEST_SKIP() << "needs root, to be another account";
  uint16_t port = 0;
  const common::UniqueFd listening = Bound(&port);
  ASSERT_EQ(listen(listening.get(), 8), 0);
  const pid_t child = InChild(kNobody, [&] {
    char byte;
    return static_cast<int>(recv(Connected(port), &byte, 1, 0));  // until it is closed
  });
  common::UniqueFd fd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(AccountOfPeer(fd.get()), kNobody);
  fd.Reset();
  EXPECT_EQ(StatusOf(child), 0);
}

// The kernel lists a socket without a process as root's: a stranger who sent and closed at once would be root.
TEST(Strangers, APeerThatHasClosedItsSocketHasNoAccount) {
  if (!IsRoot()) GTEST_SKIP() << "needs root, to be another account";
  uint16_t port = 0;
  const common::UniqueFd listening = Bound(&port);
  ASSERT_EQ(listen(listening.get(), 8), 0);
  EXPECT_EQ(StatusOf(InChild(kNobody,
                             [&] {
                               const int fd = Connected(port);
                               const std::string bytes = Greeting();
                               send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
                               return close(fd);
                             })),
            0);
  const common::UniqueFd fd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(AccountOfPeer(fd.get()), std::nullopt);
}

}  // namespace
}  // namespace muster::rendezvous
