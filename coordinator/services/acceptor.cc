#include "coordinator/services/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/text/strings.h"
#include "coordinator/net/peer_address.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// The HTTP/2 client preface.
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// How a TLS client begins: a record of a handshake, of some version 3.x.
constexpr std::string_view kHandshake = "\x16\x03";
constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kLookAgain{50};        // recheck an incomplete preface
constexpr std::chrono::milliseconds kHandshakesAgain{10};  // whether another one may begin
constexpr std::chrono::milliseconds kDeafFor{50};
constexpr std::chrono::milliseconds kForgetEvery{100};
// TCP_USER_TIMEOUT for unacknowledged bytes to a dead peer; gRPC sets it only on connections that
// it accepted itself.
constexpr unsigned kUserTimeoutMs = 10'000;

// "peer:10.0.0.7", "peer:[::1]"; "uid:1000".
std::string PrincipalOf(int fd, bool is_unix, uint32_t* uid) {
  if (is_unix) {
    ucred who{};
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
    *uid = who.uid;
    return StrCat("uid:", who.uid);
  }
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return PeerPrincipal(address);
}

common::UniqueFd Reserve() { return common::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// gRPC's name for the connection: with TLS, gRPC sets it up itself and names it by its address.
std::string NameOf(int fd, bool is_tls) {
  if (!is_tls) return StrCat("fd:", fd);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return GrpcNameOf(address);
}

}  // namespace

Acceptor::Acceptor(std::vector<Listener> listeners, Peers& peers, HandOver hand_over,
                   std::chrono::milliseconds begin_within)
    : listeners_(std::move(listeners)),
      peers_(peers),
      hand_over_(std::move(hand_over)),
      begin_within_(begin_within),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reserve_(Reserve()),
      served_of_listener_(listeners_.size()),
      thread_([this] { Run(); }) {}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  // This can only fail if the counter is full, and then the thread wakes as well.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  thread_.join();
  waiting_.clear();
  for (Listener& listener : listeners_) listener.fd.Reset();
}

void Acceptor::Run() {
  std::vector<bool> ready_listeners(listeners_.size());
  while (WaitForSomething(ready_listeners)) {
    for (size_t listener = 0; listener < listeners_.size(); ++listener) {
      if (ready_listeners[listener]) AcceptFrom(listener);
    }
    LookAtWaiting();
  }
}

bool Acceptor::WaitForSomething(std::vector<bool>& ready_listeners) {
  const Time now = std::chrono::steady_clock::now();
  std::vector<pollfd> sources = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  Time wake_at = now + std::chrono::hours(1);
  const bool is_deaf = now < deaf_until_;
  if (is_deaf) wake_at = deaf_until_;
  for (const Listener& listener : listeners_) {
    sources.push_back({.fd = is_deaf ? -1 : listener.fd.get(), .events = POLLIN, .revents = 0});
  }
  for (const Waiting& waiting : waiting_) {
    const bool is_silent = !waiting.is_partial && !waiting.is_held;
    const Time look_at = now + (waiting.is_held ? kHandshakesAgain : kLookAgain);
    wake_at = std::min(wake_at, is_silent ? waiting.until : look_at);
    sources.push_back({.fd = is_silent ? waiting.fd.get() : -1, .events = POLLIN, .revents = 0});
  }
  const auto wait =
      std::chrono::duration_cast<std::chrono::milliseconds>(wake_at - now).count() + 1;
  poll(sources.data(), sources.size(), static_cast<int>(std::max<int64_t>(wait, 0)));
  for (size_t listener = 0; listener < listeners_.size(); ++listener) {
    ready_listeners[listener] = sources[listener + 1].revents != 0;
  }
  return sources[0].revents == 0;
}

void Acceptor::AcceptFrom(size_t listener) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    common::UniqueFd fd(
        accept4(listeners_[listener].fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      Admit(std::move(fd), listener);
      continue;
    }
    if (errno == EAGAIN) return;
    if (errno == EMFILE || errno == ENFILE) return TurnAwayWithReserve(listener);
    // A connection that ended before it was accepted; other errors (memory) may be transient.
    if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
    deaf_until_ = std::chrono::steady_clock::now() + kDeafFor;
    return;
  }
}

void Acceptor::TurnAwayWithReserve(size_t listener) {
  turned_away_.Warn({.code = "JC1612",
                     .what = "no free descriptor for a new connection, so it was closed",
                     .fix = "raise the limit of open files (LimitNOFILE)"});
  if (!waiting_.empty()) waiting_.pop_front();
  reserve_.Reset();
  common::UniqueFd(accept4(listeners_[listener].fd.get(), nullptr, nullptr, SOCK_CLOEXEC)).Reset();
  reserve_ = Reserve();
  if (!reserve_.valid()) deaf_until_ = std::chrono::steady_clock::now() + kDeafFor;
}

void Acceptor::Admit(common::UniqueFd fd, size_t listener) {
  const Listener& from = listeners_[listener];
  uint32_t uid = 0;
  std::string principal = PrincipalOf(fd.get(), from.is_unix, &uid);
  if (principal.empty()) return;
  if (from.own_uid_only && uid != getuid() && uid != 0) {
    return strangers_.Warn(
        {.code = "JC1312",
         .what = StrCat("a process of uid ", uid, " connected to the private coordinator of uid ",
                        getuid(), " and was rejected"),
         .fix = "each user starts a separate one"});
  }
  if (!MakeRoom(listener)) return;
  if (!from.is_unix) {
    const int yes = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  }
  std::string network = NetworkOf(principal);
  waiting_.push_back({.fd = std::move(fd),
                      .principal = std::move(principal),
                      .network = std::move(network),
                      .until = std::chrono::steady_clock::now() + begin_within_,
                      .listener = listener});
}

bool Acceptor::MakeRoom(size_t listener) {
  const size_t most = std::max<size_t>(listeners_[listener].most, 2);
  const size_t waiting = CountWaiting(listener);
  const size_t& served = served_of_listener_[listener];
  if (waiting < most / 2 && waiting + served >= most) ForgetClosed();
  if (waiting < most / 2 && waiting + served < most) return true;
  turned_away_.Warn(
      {.code = "JC1311",
       .what = StrCat(waiting + served, " connections are open, of which ", waiting,
                      " have sent nothing; for a new one, the oldest silent one is closed"),
       .fix =
           "find out what opens them (ss -tnp), or raise the limit of open files (LimitNOFILE)"});
  const auto oldest =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [listener](const Waiting& each) { return each.listener == listener; });
  if (oldest == waiting_.end()) return false;
  waiting_.erase(oldest);
  return true;
}

Acceptor::Beginning Acceptor::Look(int fd, bool is_tls) {
  const std::string_view expected = is_tls ? kHandshake : kPreface;
  char bytes[kPreface.size()];
  const ssize_t count = recv(fd, bytes, expected.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR ? Beginning::kNotYet : Beginning::kWrong;
  }
  if (count == 0 || std::memcmp(bytes, expected.data(), static_cast<size_t>(count)) != 0) {
    return Beginning::kWrong;
  }
  return static_cast<size_t>(count) < expected.size() ? Beginning::kPartial : Beginning::kWhole;
}

// The newest first: a connection that has waited long for a handshake may be one of many that never
// meant to finish.
void Acceptor::LookAtWaiting() {
  const Time now = std::chrono::steady_clock::now();
  if (!waiting_.empty()) EndHandshakes(now);
  full_.clear();
  for (auto at = waiting_.end(); at != waiting_.begin();) {
    --at;
    const Beginning beginning =
        at->is_held ? Beginning::kWhole : Look(at->fd.get(), listeners_[at->listener].is_tls);
    if (beginning == Beginning::kWrong || now >= at->until) {
      at = waiting_.erase(at);
    } else if (beginning != Beginning::kWhole) {
      at->is_partial = beginning == Beginning::kPartial;
    } else if (full_.contains(at->network)) {
      at->is_held = true;  // otherwise thousands of one network would cost a look-up each
    } else if (listeners_[at->listener].is_tls && HasClientLeft(at->fd.get())) {
      at = waiting_.erase(at);
    } else if (MayShakeHands(*at)) {
      Give(std::move(*at));
      at = waiting_.erase(at);
    } else {
      at->is_held = true;
    }
  }
}

// Ends the handshakes that are over, one way or the other. gRPC does not report it, but a member makes
// its first call at once, and gRPC closes the connection of a peer that is not a member.
void Acceptor::EndHandshakes(Time now) {
  gate_.EndIf([&](HandshakeGate::Id id, Time since) {
    const int fd = static_cast<int>(id);
    const auto served = served_.find(fd);
    const bool is_over = now - since >= begin_within_ || served == served_.end() ||
                         InodeOf(fd) != served->second.inode || peers_.HasCertificate(shaking_[fd]);
    if (is_over) shaking_.erase(fd);
    return is_over;
  });
}

bool Acceptor::MayShakeHands(const Waiting& waiting) {
  if (!listeners_[waiting.listener].is_tls) return true;
  const Time now = std::chrono::steady_clock::now();
  const std::string& network = waiting.network;
  HandshakeGate::Verdict verdict = gate_.Ask(network, now);
  if (verdict.to_close.has_value()) {
    const int stalled = static_cast<int>(*verdict.to_close);
    turned_away_.Warn({.code = "JC1311",
                       .what = StrCat("too many TLS handshakes at once; for one of ", network,
                                      ", the oldest that makes no progress was closed"),
                       .fix = "find out what opens them (ss -tnp)"});
    // It is still the same connection, because EndHandshakes has checked that.
    shutdown(stalled, SHUT_RDWR);
    gate_.End(*verdict.to_close);
    shaking_.erase(stalled);
    verdict = gate_.Ask(network, now);
  }
  if (!verdict.may_begin) {
    full_.insert(network);
    return false;
  }
  const int fd = waiting.fd.get();
  gate_.Begin(static_cast<HandshakeGate::Id>(fd), network, now);
  shaking_[fd] = NameOf(fd, /*is_tls=*/true);
  return true;
}

void Acceptor::Give(Waiting waiting) {
  const Listener& from = listeners_[waiting.listener];
  std::string name = NameOf(waiting.fd.get(), from.is_tls);
  if (name.empty()) return;
  const int fd = waiting.fd.Release();
  const auto [at, fresh] = served_.try_emplace(fd);
  if (!fresh) --served_of_listener_[at->second.listener];
  at->second = {.inode = InodeOf(fd), .listener = waiting.listener};
  ++served_of_listener_[waiting.listener];
  peers_.Set(name,
             {.fd = fd, .inode = at->second.inode, .principal = std::move(waiting.principal)});
  hand_over_(fd, from);
}

void Acceptor::ForgetClosed() {
  const Time now = std::chrono::steady_clock::now();
  if (now < may_forget_at_) return;
  may_forget_at_ = now + kForgetEvery;
  std::erase_if(served_, [this](const auto& each) {
    const auto& [fd, served] = each;
    if (InodeOf(fd) == served.inode) return false;
    --served_of_listener_[served.listener];
    return true;
  });
}

size_t Acceptor::CountWaiting(size_t listener) const {
  return static_cast<size_t>(
      std::count_if(waiting_.begin(), waiting_.end(),
                    [listener](const Waiting& each) { return each.listener == listener; }));
}

}  // namespace muster::coordinator
