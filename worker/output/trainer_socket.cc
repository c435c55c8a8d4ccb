// trainer_socket: one input and one output buffer per connection.
#include "worker/output/trainer_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/limits.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

// Per attempt: each rank has one, and a user program may open a few more.
// limit: trainers: connections from one attempt's trainers; a new one is closed. When the worker runs out of
// descriptors, the attempt with the most connections loses one
constexpr size_t kConnectionsBase = 32;
// limit: trainers: further ones for each of its ranks
constexpr size_t kConnectionsPerRank = 8;
constexpr size_t kOutputBytesMax = 256 * 1024;
constexpr size_t kReadBytes = 64 * 1024;
constexpr int kReadsPerTurn = 4;  // so that a rank that floods its socket cannot starve the others
constexpr size_t kAttemptBytesPerTurn = 1 << 20;  // nor its attempt the other attempts
constexpr size_t kDrainBytesMax = 16 << 20;       // for an attempt that ended
constexpr int64_t kAcceptPauseMs = 200;

bool IsAllowedPeer(int fd, const RankPass& pass) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && MayConnect(pass, peer.uid);
}

}  // namespace

absl::StatusOr<common::UniqueFd> ListenUnix(const std::string& path,
                                            const common::LaunchAccount& account) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(common::StrCat("the socket path ", path, " is longer than ",
                                                     sizeof address.sun_path - 1,
                                                     " bytes; fix: a shorter --runtime-dir"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  common::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  unlink(path.c_str());
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      chmod(path.c_str(), 0600) != 0 ||
      (account.is_other && chown(path.c_str(), account.uid, account.gid) != 0) ||
      listen(fd.get(), 128) != 0) {
    return common::ErrnoStatus(common::StrCat("cannot listen on ", path));
  }
  return fd;
}

void TrainerSocket::Add(const Attempt& attempt, common::UniqueFd listener) {
  const int fd = listener.get();
  Listener& added = listeners_[fd];
  added.attempt = attempt;
  added.fd = std::move(listener);
}

void TrainerSocket::Remove(const AttemptKey& key) {
  std::erase_if(listeners_, [&](const auto& item) { return item.second.attempt.key == key; });
  std::erase_if(connections_, [&](const auto& item) { return item.second->attempt.key == key; });
}

TrainerSocket::Listener* TrainerSocket::Of(const AttemptKey& key) {
  for (auto& [fd, listener] : listeners_) {
    if (listener.attempt.key == key) return &listener;
  }
  return nullptr;
}

void TrainerSocket::Close(std::map<int, std::unique_ptr<Connection>>::iterator connection) {
  if (Listener* listener = Of(connection->second->attempt.key)) --listener->connections;
  connections_.erase(connection);
}

void TrainerSocket::Broadcast(const AttemptKey& key, const std::string& line) {
  for (auto at = connections_.begin(); at != connections_.end();) {
    Connection& connection = *at->second;
    if (connection.attempt.key == key && connection.greeted) {
      connection.output += line;
      if (!Flush(connection)) {
        Close(at++);
        continue;
      }
    }
    ++at;
  }
}

std::set<uint32_t> TrainerSocket::Speakers(const AttemptKey& key) const {
  std::set<uint32_t> speakers;
  for (const auto& [fd, connection] : connections_) {
    if (connection->attempt.key == key && connection->greeted) speakers.insert(connection->rank);
  }
  return speakers;
}

void TrainerSocket::BeginTurn(int64_t now_ms, std::vector<pollfd>* fds) {
  for (auto& [fd, listener] : listeners_) {
    listener.bytes_left = kAttemptBytesPerTurn;
    if (listener.paused_until_ms > now_ms) continue;
    listener.paused_until_ms = 0;
    fds->push_back({fd, POLLIN, 0});
  }
  auto at = connections_.lower_bound(std::exchange(waited_fd_, 0));
  for (size_t i = 0; i < connections_.size(); ++i, ++at) {
    if (at == connections_.end()) at = connections_.begin();
    const short out = at->second->output.empty() ? 0 : POLLOUT;
    fds->push_back({at->first, static_cast<short>(POLLIN | out), 0});
  }
}

std::optional<int64_t> TrainerSocket::NextAcceptMs() const {
  std::optional<int64_t> next;
  for (const auto& [fd, listener] : listeners_) {
    const int64_t due = listener.paused_until_ms;
    if (due > 0 && (!next || due < *next)) next = due;
  }
  return next;
}

void TrainerSocket::OnReady(const pollfd& ready, int64_t now_ms) {
  if (auto listener = listeners_.find(ready.fd); listener != listeners_.end()) {
    return Accept(listener->second, now_ms);
  }
  auto found = connections_.find(ready.fd);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  Listener* listener = Of(connection.attempt.key);
  bool keep = listener != nullptr;
  if (keep && (ready.revents & POLLIN) != 0) {
    if (listener->bytes_left == 0) {
      if (waited_fd_ == 0) waited_fd_ = ready.fd;
      return;
    }
    keep = Read(connection, &listener->bytes_left);
  }
  keep = keep && Flush(connection) && (ready.revents & (POLLERR | POLLNVAL)) == 0;
  if ((ready.revents & POLLHUP) != 0 && (ready.revents & POLLIN) == 0) keep = false;
  if (!keep) Close(found);
}

void TrainerSocket::Drain(const AttemptKey& key) {
  size_t bytes_left = kDrainBytesMax;
  Listener* listener = Of(key);
  if (listener == nullptr) return;
  Accept(*listener, 0);
  for (auto& [fd, connection] : connections_) {
    if (connection->attempt.key != key) continue;
    size_t before = 0;
    do {
      before = bytes_left;
    } while (bytes_left > 0 && Read(*connection, &bytes_left) && bytes_left < before);
  }
}

bool TrainerSocket::MakeRoom(const Listener& newcomer) {
  if (newcomer.connections >=
      kConnectionsBase + kConnectionsPerRank * size_t{newcomer.attempt.ranks}) {
    return false;
  }
  if (connections_.size() < connections_max_) return true;
  const auto most = std::max_element(
      listeners_.begin(), listeners_.end(),
      [](const auto& a, const auto& b) { return a.second.connections < b.second.connections; });
  if (most->second.connections <= newcomer.connections + 1) return false;
  auto victim = connections_.end();  // preferably one that has not sent a hello
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (at->second->attempt.key != most->second.attempt.key) continue;
    if (victim == connections_.end() || !at->second->greeted) victim = at;
  }
  Close(victim);
  return true;
}

void TrainerSocket::Accept(Listener& listener, int64_t now_ms) {
  listener.paused_until_ms = 0;
  while (true) {
    common::UniqueFd fd(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      // No descriptor is free: the peer waits in the backlog, and this loop does not spin.
      if (errno == EMFILE || errno == ENFILE) listener.paused_until_ms = now_ms + kAcceptPauseMs;
      return;
    }
    // Closed immediately.
    if (!IsAllowedPeer(fd.get(), listener.attempt.pass) || !MakeRoom(listener)) continue;
    auto connection = std::make_unique<Connection>();
    connection->attempt = listener.attempt;
    const int number = fd.get();
    connection->fd = std::move(fd);
    connections_[number] = std::move(connection);
    ++listener.connections;
  }
}

bool TrainerSocket::Read(Connection& connection, size_t* bytes_left) {
  char buffer[kReadBytes];
  for (int reads_left = kReadsPerTurn; reads_left > 0 && *bytes_left > 0; --reads_left) {
    const ssize_t count = read(connection.fd.get(), buffer, std::min(sizeof buffer, *bytes_left));
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    *bytes_left -= static_cast<size_t>(count);
    connection.input.append(buffer, static_cast<size_t>(count));
    TakeLines(connection);
    if (static_cast<size_t>(count) < sizeof buffer) return true;
  }
  return true;
}

void TrainerSocket::TakeLines(Connection& connection) {
  size_t at = 0;
  for (size_t end; (end = connection.input.find('\n', at)) != std::string::npos; at = end + 1) {
    if (connection.skipping) {
      connection.skipping = false;
      continue;
    }
    OnLine(connection, std::string_view(connection.input).substr(at, end - at));
  }
  connection.input.erase(0, at);
  if (connection.input.size() <= common::kTrainerLineBytesMax) return;
  if (!connection.skipping) Refuse(connection, "the line is longer than 1 MiB");
  connection.skipping = true;
  connection.input.clear();
}

void TrainerSocket::OnLine(Connection& connection, std::string_view text) {
  if (text.empty()) return;
  absl::StatusOr<TrainerLine> line =
      text.size() > common::kTrainerLineBytesMax
          ? absl::InvalidArgumentError("the line is longer than 1 MiB")
          : ParseTrainerLine(text);
  if (!line.ok()) return Refuse(connection, common::FromAbsl(line.status().message()));
  using Kind = TrainerLine::Kind;
  if (line->kind == Kind::kUnknown) return;
  if (line->kind != Kind::kHello && !connection.greeted) {
    return Refuse(connection, "the first line must be a hello");
  }
  const AttemptKey& key = connection.attempt.key;
  absl::Status status;
  switch (line->kind) {
    case Kind::kHello:
      status = OnHello(connection, *line);
      break;
    case Kind::kMetrics:
      status = OnMetrics(connection, *std::move(line));
      break;
    case Kind::kProgress:
      callbacks_.progress(key, connection.rank, line->step, line->total);
      break;
    case Kind::kDropped:
      callbacks_.dropped(key, connection.rank, line->dropped);
      break;
    case Kind::kCheckpoint:
      callbacks_.checkpoint_hint(key);
      break;
    case Kind::kDiagnosis:
      callbacks_.diagnosis(key, connection.rank, line->number, std::move(line->record));
      break;
    case Kind::kUnknown:
      break;
  }
  if (!status.ok()) Refuse(connection, common::FromAbsl(status.message()));
}

absl::Status TrainerSocket::OnHello(Connection& connection, const TrainerLine& line) {
  const Attempt& attempt = connection.attempt;
  if (line.job != attempt.key.job || line.attempt != attempt.key.attempt) {
    return absl::InvalidArgumentError(
        common::StrCat("this socket belongs to job ", attempt.key.job, " attempt ",
                       attempt.key.attempt, ", not to job ", line.job, " attempt ", line.attempt));
  }
  if (line.rank < attempt.first_rank || line.rank >= attempt.first_rank + attempt.ranks) {
    return absl::InvalidArgumentError(
        common::StrCat("rank ", line.rank, " does not run here; ", attempt.first_rank, " to ",
                       attempt.first_rank + attempt.ranks - 1, " do"));
  }
  if (absl::Status proved = CheckToken(attempt.pass, line.token); !proved.ok()) return proved;
  connection.greeted = true;
  connection.rank = line.rank;
  connection.output += WelcomeLine(callbacks_.last_seq(attempt.key, line.rank));
  return absl::OkStatus();
}

absl::Status TrainerSocket::OnMetrics(Connection& connection, TrainerLine line) {
  const AttemptKey& key = connection.attempt.key;
  const uint64_t last = callbacks_.last_seq(key, connection.rank);
  const uint64_t seq = line.batch.seq();
  if (!line.left_out.empty()) Refuse(connection, line.left_out);
  if (seq > last + 1) {
    return absl::InvalidArgumentError(common::StrCat("batch ", seq, " arrived, but ", last + 1,
                                                     " was expected; send that one again"));
  }
  if (seq == last + 1) {
    line.batch.set_source("socket");
    const absl::Status kept = callbacks_.metrics(key, connection.rank, std::move(line.batch));
    if (!kept.ok()) return kept;
  }
  connection.output += AckLine(std::max(last, seq));
  return absl::OkStatus();
}

void TrainerSocket::Refuse(Connection& connection, std::string_view reason) {
  // A trainer that repeats the same mistake gets only one error line.
  if (connection.sent_error == reason) return;
  connection.sent_error = std::string(reason);
  connection.output += ErrorLine(common::Printable(reason));
}

bool TrainerSocket::Flush(Connection& connection) {
  while (!connection.output.empty()) {
    const ssize_t count =
        send(connection.fd.get(), connection.output.data(), connection.output.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return connection.output.size() <= kOutputBytesMax;
    if (count < 0) return false;
    connection.output.erase(0, static_cast<size_t>(count));
  }
  return true;
}

}  // namespace muster::worker
