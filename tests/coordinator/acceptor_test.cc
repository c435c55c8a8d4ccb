// Connections that send nothing, come from other users, or are too many.
#include "coordinator/services/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/net/handshake_gate.h"
#include "coordinator/net/listener.h"
#include "coordinator/net/peer_address.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/no_free_descriptors.h"

namespace muster::coordinator {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::chrono::milliseconds kLong{600'000};

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(std::chrono::milliseconds begin_within, size_t most, bool own_uid_only = false,
             bool is_tls = false) {
    auto fd = ListenOnSocket(path_);
    ASSERT_TRUE(fd.ok()) << fd.status();
    std::vector<Acceptor::Listener> listeners;
    listeners.push_back({.fd = *std::move(fd),
                         .is_unix = true,
                         .own_uid_only = own_uid_only,
                         .is_tls = is_tls,
                         .most = most});
    acceptor_ = std::make_unique<Acceptor>(
        std::move(listeners), peers_,
        [this](int fd, const Acceptor::Listener&) {
          std::lock_guard lock(mutex_);
          given_.emplace_back(fd);
          changed_.notify_all();
        },
        begin_within);
  }
  void TearDown() override { acceptor_.reset(); }

  common::UniqueFd Connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    common::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      fd.Reset();
    }
    return fd;
  }
  // True: the other side has closed it.
  static bool IsClosedWithin(int fd, int timeout_ms) {
    pollfd source{.fd = fd, .events = POLLIN, .revents = 0};
    char byte = 0;
    return poll(&source, 1, timeout_ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
  }
  int WaitForGiven(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return given_.size() >= count; });
    return given_.size() >= count ? given_[count - 1].get() : -1;
  }

  TempDir dir_;
  const std::string path_ = dir_.path() + "/c.sock";
  Peers peers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<common::UniqueFd> given_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, AConnectionIsHandedOverWhenItHasBegunAndItsUidIsKnown) {
  Start(kLong, 8);
  const common::UniqueFd client = Connect();
  ASSERT_EQ(send(client.get(), kPreface, 10, 0), 10);
  ASSERT_EQ(send(client.get(), kPreface + 10, 14, 0), 14);
  const int fd = WaitForGiven(1);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(peers_.PrincipalOf("fd:" + std::to_string(fd)), "uid:" + std::to_string(getuid()));
  char bytes[64];
  EXPECT_EQ(recv(fd, bytes, sizeof bytes, 0), 24);  // all of it is left for gRPC to read
}

TEST_F(AcceptorTest, ASilentConnectionAndAWrongOneAreClosed) {
  Start(std::chrono::milliseconds(50), 8);
  const common::UniqueFd silent = Connect();
  EXPECT_TRUE(IsClosedWithin(silent.get(), 20'000));
  const common::UniqueFd wrong = Connect();
  ASSERT_EQ(send(wrong.get(), "GET / HTTP/1.1\r\n", 16, 0), 16);
  EXPECT_TRUE(IsClosedWithin(wrong.get(), 20'000));
}

TEST_F(AcceptorTest, OfTooManySilentOnesTheOldestGoesAndAGoodOneStillComesIn) {
  Start(kLong, 8);
  std::vector<common::UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(Connect());
  EXPECT_TRUE(IsClosedWithin(silent.front().get(), 20'000));
  const common::UniqueFd good = Connect();
  ASSERT_EQ(send(good.get(), kPreface, 24, 0), 24);
  EXPECT_GE(WaitForGiven(1), 0);
}

TEST_F(AcceptorTest, ServedConnectionsAreBoundedAndClosedOnesMakeRoom) {
  Start(kLong, 4);
  std::vector<common::UniqueFd> clients;
  for (size_t i = 0; i < 4; ++i) {
    clients.push_back(Connect());
    ASSERT_EQ(send(clients.back().get(), kPreface, 24, 0), 24);
    ASSERT_GE(WaitForGiven(i + 1), 0);
  }
  const common::UniqueFd one_more = Connect();
  EXPECT_TRUE(IsClosedWithin(one_more.get(), 20'000));
  {
    std::lock_guard lock(mutex_);
    given_[0].Reset();
  }
  // It may be rejected until the acceptor next checks what is being served.
  const auto is_given = [this] {
    std::lock_guard lock(mutex_);
    return given_.size() >= 5;
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_given() && std::chrono::steady_clock::now() < until) {
    const common::UniqueFd next = Connect();
    if (send(next.get(), kPreface, 24, MSG_NOSIGNAL) != 24) continue;
    while (!is_given() && !IsClosedWithin(next.get(), 10)) {
    }
  }
  EXPECT_GE(WaitForGiven(5), 0);
}

TEST_F(AcceptorTest, WithoutAFreeDescriptorItTurnsAwayAndLaterGoesOn) {
  Start(kLong, 8);
  // The backlog accepts the connection before the descriptors run out.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  const common::UniqueFd refused(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    NoFreeDescriptors none;
    ASSERT_EQ(connect(refused.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_TRUE(IsClosedWithin(refused.get(), 20'000));
  }
  const common::UniqueFd good = Connect();
  ASSERT_EQ(send(good.get(), kPreface, 24, 0), 24);
  EXPECT_GE(WaitForGiven(1), 0);
}

TEST_F(AcceptorTest, AnotherUsersProcessIsTurnedAwayFromAPrivateCoordinator) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  Start(kLong, 8, true);
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    const common::UniqueFd fd = Connect();
    if (!fd.valid()) _exit(3);
    if (send(fd.get(), kPreface, 24, MSG_NOSIGNAL) < 0 && errno != EPIPE) _exit(4);
    _exit(IsClosedWithin(fd.get(), 20'000) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const common::UniqueFd own = Connect();
  ASSERT_EQ(send(own.get(), kPreface, 24, 0), 24);
  EXPECT_GE(WaitForGiven(1), 0);
}

// Only its handshake: what TLS makes of it is gRPC's.
TEST_F(AcceptorTest, OfHandshakesThatGoOnAtOnceOnlySoManyAreHandedOver) {
  Start(kLong, 200, /*own_uid_only=*/false, /*is_tls=*/true);
  std::vector<common::UniqueFd> half_open;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 40; ++i) {
    half_open.push_back(Connect());
    ASSERT_EQ(send(half_open.back().get(), "\x16\x03\x01", 3, 0), 3);
  }
  ASSERT_GE(WaitForGiven(16), 0);
  // The oldest makes room.
  EXPECT_GE(WaitForGiven(17), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - began, HandshakeGate::Limits().timeout);
  const bool is_one_closed = std::any_of(half_open.begin(), half_open.end(), [](const auto& each) {
    return IsClosedWithin(each.get(), 0);
  });
  EXPECT_TRUE(is_one_closed);
}

TEST(PeersTest, AReusedPortOrDescriptorKeepsNoConnectionFromBeingCut) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const common::UniqueFd ours(ends[0]), theirs(ends[1]);
  constexpr int kGone = 1'000'000;  // a descriptor that was closed, and is used again
  Peers peers;
  peers.Set("ipv4:10.0.0.7:1", {.fd = kGone, .inode = 1, .principal = "peer:10.0.0.7"});
  peers.Set("ipv4:10.0.0.7:1",
            {.fd = ours.get(), .inode = InodeOf(ours.get()), .principal = "peer:10.0.0.7"});
  peers.Set("ipv4:10.0.0.9:2", {.fd = kGone, .inode = 2, .principal = "peer:10.0.0.9"});
  EXPECT_TRUE(peers.SawCertificate("ipv4:10.0.0.7:1", {.serial = "ab", .until_ms = 1}));
  EXPECT_FALSE(peers.SawCertificate("ipv4:10.0.0.7:1", {.serial = "ab", .until_ms = 1}));
  EXPECT_EQ(peers.Cut({"cd"}), 0u);
  EXPECT_EQ(peers.Cut({"ab"}), 1u);
  char byte = 0;
  EXPECT_EQ(recv(theirs.get(), &byte, 1, MSG_DONTWAIT), 0) << "closed";
}

TEST(PeersTest, OfTwoConnectionsThatAreCalledTheSameTheOlderIsClosed) {
  int one[2], two[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, one), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two), 0);
  const common::UniqueFd older(one[0]), its_client(one[1]), newer(two[0]), other_client(two[1]);
  Peers peers;
  for (const int fd : {older.get(), newer.get()}) {
    peers.Set("ipv4:10.0.0.7:1", {.fd = fd, .inode = InodeOf(fd), .principal = "peer:10.0.0.7"});
  }
  char byte = 0;
  EXPECT_EQ(recv(its_client.get(), &byte, 1, MSG_DONTWAIT), 0) << "closed";
  EXPECT_LT(recv(other_client.get(), &byte, 1, MSG_DONTWAIT), 0) << "open";
}

class Pair {
 public:
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours_ = common::UniqueFd(ends[0]);
    theirs_ = common::UniqueFd(ends[1]);
  }
  Peers::Connection Connection(const std::string& principal) const {
    return {.fd = ours_.get(), .inode = InodeOf(ours_.get()), .principal = principal};
  }
  bool IsClosed() const {
    char byte = 0;
    return recv(theirs_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  common::UniqueFd ours_, theirs_;
};

TEST(PeersTest, AConnectionEndsWithTheCertificateThatItWasOpenedWith) {
  const Pair early, late, local;
  Peers peers;
  peers.Set("ipv4:10.0.0.7:1", early.Connection("peer:10.0.0.7"));
  peers.Set("ipv4:10.0.0.7:2", late.Connection("peer:10.0.0.7"));
  peers.Set("fd:9", local.Connection("uid:1000"));
  peers.SawCertificate("ipv4:10.0.0.7:2", {.serial = "cd", .until_ms = 2'000});
  EXPECT_FALSE(peers.HasCertificate("ipv4:10.0.0.7:1"));
  peers.SawCertificate("ipv4:10.0.0.7:1", {.serial = "ab", .until_ms = 1'000});
  EXPECT_TRUE(peers.HasCertificate("ipv4:10.0.0.7:1"));
  EXPECT_EQ(peers.CutExpired(999), 0u);
  EXPECT_EQ(peers.CutExpired(1'000), 1u);
  EXPECT_TRUE(early.IsClosed());
  EXPECT_FALSE(late.IsClosed()) << "it was renewed";
  EXPECT_EQ(peers.CutExpired(1'500), 0u);
  EXPECT_EQ(peers.CutExpired(3'000), 1u);
  EXPECT_TRUE(late.IsClosed());
  EXPECT_FALSE(local.IsClosed()) << "it has no certificate";
}

TEST(PeersTest, ALocalAccountsConnectionsAreCutByItsName) {
  const Pair theirs, others;
  Peers peers;
  peers.Set("fd:8", theirs.Connection("uid:1000"));
  peers.Set("fd:9", others.Connection("uid:10001"));
  EXPECT_EQ(peers.CutPrincipal("uid:1000"), 1u);
  EXPECT_TRUE(theirs.IsClosed());
  EXPECT_FALSE(others.IsClosed());
}

TEST(PeerAddressTest, AnIpv6NetworkIsOnePeerAndAZoneIsNoPartOfTheAddress) {
  for (const auto& [principal, network] : std::map<std::string, std::string>{
           {"peer:[2001:db8:1:2:3:4:5:6]", "peer:[2001:db8:1:2::]/64"},
           {"peer:[2001:db8:1:2::9]", "peer:[2001:db8:1:2::]/64"},
           {"peer:[2001:db8:1:3::9]", "peer:[2001:db8:1:3::]/64"},
           {"peer:[fe80::7%eth0]", "peer:[fe80::]/64"},
           {"peer:[::ffff:10.0.0.7]", "peer:[::ffff:10.0.0.7]"},
           {"peer:10.0.0.7", "peer:10.0.0.7"},
           {"peer:[nonsense", "peer:[nonsense"},
           {"uid:1000", "uid:1000"}}) {
    EXPECT_EQ(NetworkOf(principal), network) << principal;
  }
  sockaddr_storage storage{};
  auto& address = reinterpret_cast<sockaddr_in6&>(storage);
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(41'180);
  address.sin6_scope_id = 2;
  ASSERT_EQ(inet_pton(AF_INET6, "fe80::7", &address.sin6_addr), 1);
  EXPECT_EQ(AddressText(storage), "fe80::7");
  EXPECT_EQ(PeerPrincipal(storage), "peer:[fe80::7]");
  EXPECT_EQ(GrpcNameOf(storage), "ipv6:%5Bfe80::7%252%5D:41180");
}

using Gate = HandshakeGate;

TEST(HandshakeGateTest, SoManyGoOnAtOnceAndOneNetworkDoesNotUseThemUp) {
  Gate gate({.most = 5, .most_of_network = 3, .timeout = std::chrono::seconds(1)});
  const Gate::Time now{};
  for (const Gate::Id id : {1, 2, 3}) {
    ASSERT_TRUE(gate.Ask("a", now).may_begin);
    gate.Begin(id, "a", now + std::chrono::milliseconds(id));
  }
  EXPECT_FALSE(gate.Ask("a", now).may_begin);
  for (const Gate::Id id : {4, 5}) {
    ASSERT_TRUE(gate.Ask("b", now).may_begin) << "others still may";
    gate.Begin(id, "b", now + std::chrono::milliseconds(id));
  }
  EXPECT_FALSE(gate.Ask("c", now).may_begin) << "so many in all";
  gate.End(4);
  EXPECT_TRUE(gate.Ask("c", now).may_begin);
  gate.EndIf([](Gate::Id id, Gate::Time) { return id == 2; });
  EXPECT_TRUE(gate.Ask("a", now).may_begin);
}

TEST(HandshakeGateTest, OneThatMakesNoProgressIsClosedForAnother) {
  Gate gate({.most = 3, .most_of_network = 2, .timeout = std::chrono::seconds(1)});
  const Gate::Time now{};
  gate.Begin(1, "b", now);
  gate.Begin(2, "a", now + std::chrono::milliseconds(100));
  gate.Begin(3, "a", now + std::chrono::milliseconds(200));
  EXPECT_FALSE(gate.Ask("a", now + std::chrono::milliseconds(999)).to_close.has_value())
      << "they may just be slow";
  const Gate::Time later = now + std::chrono::milliseconds(1'150);
  EXPECT_EQ(gate.Ask("a", later).to_close, 2u) << "of its own network";
  EXPECT_EQ(gate.Ask("c", later).to_close, 1u) << "of all";
}

}  // namespace
}  // namespace muster::coordinator
