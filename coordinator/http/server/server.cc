#include "coordinator/http/server/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "coordinator/base/work_pool.h"
#include "coordinator/http/server/connection.h"
#include "coordinator/http/server/peer.h"
#include "coordinator/net/peer_address.h"

namespace muster::coordinator::http {
namespace {

constexpr int kAcceptsPerWake = 64;
constexpr std::chrono::milliseconds kAcceptPause{50};
// After this many streams of a round, the daemon's other threads get the processor.
constexpr size_t kPulledAtOnce = 16;
constexpr std::chrono::milliseconds kBreath{4};
constexpr std::chrono::milliseconds kHeldPause{20};

}  // namespace

void Server::Core::WaitAt(Endpoint& endpoint) {
  endpoint.socket.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this, &endpoint](error_code error) {
                               if (error) return;
                               if (AcceptFrom(endpoint)) return WaitAt(endpoint);
                               endpoint.pause.expires_after(kAcceptPause);
                               endpoint.pause.async_wait([this, &endpoint](error_code stopped) {
                                 if (!stopped) WaitAt(endpoint);
                               });
                             });
}

bool Server::Core::AcceptFrom(Endpoint& endpoint) {
  for (int i = 0; i < kAcceptsPerWake; ++i) {
    common::UniqueFd fd(
        accept4(endpoint.socket.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      Admit(std::move(fd), endpoint);
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
      // No descriptor or no memory: an idle client may be waiting with one.
      MakeRoom("");
      return false;
    }
  }
  return true;
}

// The connection that has idled longest, from this network or any; preferably one without a request so far.
std::shared_ptr<Connection> Server::Core::IdleOne(std::string_view of_network) const {
  std::shared_ptr<Connection> found;
  for (const auto& each : open) {
    if (!each->IsIdle() || (!of_network.empty() && each->network() != of_network)) continue;
    if (!each->HasAsked()) return each;
    if (found == nullptr) found = each;
  }
  return found;
}

std::shared_ptr<Connection> Server::Core::ToClose(const std::string& network) const {
  const std::optional<std::string> greedy = connections.WhoYields(network);
  if (!greedy.has_value() || connections.Of(*greedy) <= most / 4) return IdleOne("");
  if (std::shared_ptr<Connection> idle = IdleOne(*greedy); idle != nullptr) return idle;
  // All of them are busy: close one, or no other client gets in.
  const auto oldest = std::find_if(open.begin(), open.end(),
                                   [&](const auto& each) { return each->network() == *greedy; });
  return oldest == open.end() ? nullptr : *oldest;
}

void Server::Core::MakeRoom(const std::string& network) {
  ++turned_away;
  if (const std::shared_ptr<Connection> victim = ToClose(network); victim != nullptr)
    victim->Close();
}

bool Server::Core::TakeStream(const std::string& caller) {
  if (streams.taken() >= streams.limits().most) {
    const std::optional<std::string> greedy = streams.WhoYields(caller);
    if (!greedy.has_value()) return false;
    const auto oldest = std::find_if(open.begin(), open.end(), [&](const auto& each) {
      return each->IsStream() && each->caller() == *greedy;
    });
    if (oldest == open.end()) return false;
    ++turned_away;
    (*oldest)->Close();
  }
  streams.Take(caller);
  return true;
}

void Server::Core::PullLater() {
  if (!is_woken.exchange(true)) PullInTurn();
}

void Server::Core::PullInTurn() {
  if (std::chrono::steady_clock::now() >= next_pull && round.empty()) return BeginRound();
  pull_pause.expires_at(std::max(next_pull, std::chrono::steady_clock::now() + kBreath));
  pull_pause.async_wait([this](error_code stopped) {
    if (!stopped) PullInTurn();
  });
}

void Server::Core::BeginRound() {
  is_woken = false;
  next_pull = std::chrono::steady_clock::now() + limits.pace;
  round.assign(open.begin(), open.end());
  PullSome();
}

void Server::Core::PullSome() {
  for (size_t pulled = 0; pulled < kPulledAtOnce && !round.empty();) {
    const std::shared_ptr<Connection> next = round.front().lock();
    round.pop_front();
    if (next != nullptr && next->Pull()) ++pulled;
  }
  if (round.empty()) return;
  breath.expires_after(kBreath);
  breath.async_wait([this](error_code stopped) {
    if (!stopped) PullSome();
  });
}

void Server::Core::Admit(common::UniqueFd fd, Endpoint& endpoint) {
  Peer peer = PeerOf(fd.get(), endpoint.listener.is_unix, endpoint.listener.own_uid_only);
  if (peer.principal.empty()) return;
  if (open.size() >= most) MakeRoom(NetworkOf(peer.principal));
  if (open.size() >= most) return;
  int family = AF_UNIX;
  if (!endpoint.listener.is_unix) {
    const int yes = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    family = peer.local_address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  }
  asio::generic::stream_protocol::socket socket(io);
  error_code error;
  socket.assign(asio::generic::stream_protocol(family, 0), fd.get(), error);
  if (error) return;
  fd.Release();
  ++accepted;
  ++open_count;
  const ServerTls* tls = endpoint.listener.tls.get();
  peer.is_encrypted = tls != nullptr;
  auto connection = std::make_shared<Connection>(*this, std::move(socket), std::move(peer),
                                                 tls == nullptr ? nullptr : tls->Context());
  open.push_back(connection);
  connection->Begin(std::prev(open.end()));
}

void Server::Core::BeginHandshake(const std::shared_ptr<Connection>& connection) {
  held.push_front(connection);
  LetIn();
}

void Server::Core::EndHandshake(HandshakeGate::Id id) {
  gate.End(id);
  if (!held.empty()) asio::post(io, [this] { LetIn(); });
}

bool Server::Core::MayShakeHands(const Connection& connection) {
  const auto now = std::chrono::steady_clock::now();
  const std::string network = NetworkOf(connection.peer().principal);
  HandshakeGate::Verdict verdict = gate.Ask(network, now);
  if (verdict.to_close.has_value()) {
    ++turned_away;
    const auto stalled = std::find_if(open.begin(), open.end(), [&](const auto& each) {
      return each->handshake() == *verdict.to_close;
    });
    if (stalled != open.end()) (*stalled)->Close();
    gate.End(*verdict.to_close);
    verdict = gate.Ask(network, now);
  }
  if (verdict.may_begin) gate.Begin(++last_handshake, network, now);
  return verdict.may_begin;
}

void Server::Core::LetIn() {
  for (auto at = held.begin(); at != held.end();) {
    const std::shared_ptr<Connection> each = at->lock();
    if (each == nullptr || each->IsClosed()) {
      at = held.erase(at);
    } else if (std::chrono::steady_clock::now() >= each->begun_until()) {
      at = held.erase(at);
      ++timed_out;
      each->Close();
    } else if (each->HasLeft()) {
      at = held.erase(at);
      each->Close();
    } else if (MayShakeHands(*each)) {
      at = held.erase(at);
      each->ShakeHands(last_handshake);
    } else {
      ++at;
    }
  }
  if (held.empty()) return;
  held_pause.expires_after(kHeldPause);
  held_pause.async_wait([this](error_code stopped) {
    if (!stopped) LetIn();
  });
}

Server::Server(Options options, Handlers handlers)
    : core_(std::make_shared<Core>(std::move(options), std::move(handlers))) {}

void Server::Begin() {
  for (Core::Endpoint& endpoint : core_->doors) core_->WaitAt(endpoint);
  core_->thread = std::thread([core = core_.get()] {
    YieldBy(kHttpNiceness);
    core->io.run();
  });
}

Server::~Server() { Stop(); }

void Server::Stop() {
  if (!core_->thread.joinable()) return;
  asio::post(core_->io, [core = core_.get()] {
    core->doors.clear();
    while (!core->open.empty()) core->open.front()->Close();
    core->io.stop();
  });
  core_->thread.join();
}

void Server::PullStreams() {
  if (core_->is_woken.exchange(true)) return;
  asio::post(core_->io, [core = core_.get()] { core->PullInTurn(); });
}

Server::Counts Server::Read() const {
  return {.connections = core_->open_count,
          .accepted = core_->accepted,
          .turned_away = core_->turned_away,
          .timed_out = core_->timed_out};
}

}  // namespace muster::coordinator::http
