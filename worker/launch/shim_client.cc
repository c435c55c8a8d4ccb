#include "worker/launch/shim_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/kernel/process.h"
#include "common/kernel/process_start.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::ErrnoStatus;
using common::PacketKind;
using common::ShimLaunch;
using common::ShimPacket;
using common::UniqueFd;

constexpr size_t kSocketPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
constexpr int kShimExitWaitMs = 200;  // it exits almost immediately after its last packet

// Writes the launch file and takes the lock that the shim inherits. O_EXCL: only ever one shim per
// attempt.
absl::StatusOr<UniqueFd> WriteLaunchFile(const ShimLaunch& launch) {
  const std::string path = LaunchPath(launch.attempt_dir);
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) {
    if (errno == EEXIST) {
      return absl::AlreadyExistsError(common::StrCat("attempt ", launch.job, ".", launch.attempt,
                                                     " was already launched: ", path));
    }
    return ErrnoStatus(common::StrCat("cannot create ", path));
  }
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return ErrnoStatus(common::StrCat("cannot lock ", path));
  const absl::Status written = common::WriteAll(file.get(), common::EncodeShimLaunch(launch));
  if (!written.ok()) {
    unlink(path.c_str());
    return absl::Status(written.code(), common::StrCat(path, ": ", written.message()));
  }
  return file;
}

// `fds` go to 3, 4, 5, … in the shim. Returns the pid, or a negative errno.
pid_t StartShim(const std::string& binary, const ShimLaunch& launch, const std::vector<int>& fds) {
  common::ChildSetup start{
      .program = binary,
      .argv = {"muster-shim", common::StrCat(launch.job, ".", launch.attempt), launch.attempt_dir},
      // The mark makes it findable before it has written its state.
      .env = std::vector{common::StrCat(common::kMarkVariable, "=", launch.mark)},
      .fds = {common::NoInput(),
              {.as = STDOUT_FILENO,
               .file = common::StrCat(launch.attempt_dir, "/", common::kShimLogName),
               .flags = O_WRONLY | O_CREAT | O_APPEND},
              {.as = STDERR_FILENO, .same_as = STDOUT_FILENO}},
      .closes_rest = true};
  for (size_t i = 0; i < fds.size(); ++i)
    start.fds.push_back({.as = common::kWorkerConnectionFd + static_cast<int>(i), .ours = fds[i]});
  return common::StartProcess(start);
}

absl::StatusOr<UniqueFd> Connect(const std::string& path) {
  UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection.valid()) return ErrnoStatus("cannot create a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), kSocketPathBytesMax));
  if (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus(common::StrCat("cannot connect to ", path));
  }
  return connection;
}

std::string Text(const ShimPacket& packet) {
  return std::string(packet.text, strnlen(packet.text, sizeof packet.text));
}

RankExited ToExit(const ShimPacket& packet) {
  RankExited exit;
  exit.rank = packet.rank;
  exit.pid = packet.pid;
  exit.exit_code = packet.exit_code;
  exit.signal = packet.signal;
  exit.exec_errno = packet.exec_errno;
  exit.exec_stage = static_cast<common::ExecStage>(packet.exec_stage);
  exit.out_of_memory = (packet.flags & common::kFlagOutOfMemory) != 0;
  exit.memory_limit = (packet.flags & common::kFlagMemoryLimit) != 0;
  exit.stopped = (packet.flags & common::kFlagStopped) != 0;
  exit.since_start_us = packet.since_start_us;
  exit.wall_ms = packet.wall_ms;
  return exit;
}

// Unknown kinds come from a newer shim.
void AppendEvent(const ShimPacket& packet, std::vector<ShimEvent>* events) {
  switch (packet.kind) {
    case PacketKind::kRankStarted:
      events->emplace_back(RankStarted{packet.rank, packet.pid, packet.start_time});
      break;
    case PacketKind::kRankExited:
      events->emplace_back(ToExit(packet));
      break;
    case PacketKind::kStreamClosed:
      events->emplace_back(StreamClosed{packet.rank, static_cast<common::Stream>(packet.stream),
                                        packet.offset, packet.dropped});
      break;
    case PacketKind::kSpoolGrew:
      events->emplace_back(SpoolGrew{});
      break;
    case PacketKind::kEnded:
      events->emplace_back(ShimEnded{Text(packet)});
      break;
    default:
      break;
  }
}

}  // namespace

ShimClient::ShimClient(ShimLaunch launch, UniqueFd connection, pid_t pid, bool child)
    : launch_(std::move(launch)), connection_(std::move(connection)), pid_(pid), child_(child) {}

ShimClient::~ShimClient() {
  if (child_) waitpid(pid_, nullptr, WNOHANG);
}

absl::StatusOr<std::unique_ptr<ShimClient>> ShimClient::Spawn(
    const std::string& shim_binary, ShimLaunch launch, const std::vector<int>& held_port_fds) {
  if (launch.socket_path.size() > kSocketPathBytesMax) {
    return absl::InvalidArgumentError(common::StrCat("the socket path ", launch.socket_path,
                                                     " is longer than ", kSocketPathBytesMax,
                                                     " bytes; fix: use a shorter --runtime-dir"));
  }
  launch.held_ports = static_cast<uint32_t>(held_port_fds.size());
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return ErrnoStatus("cannot create a socket pair");
  }
  UniqueFd ours(pair[0]), theirs(pair[1]);
  ASSIGN_OR_RETURN(UniqueFd file, WriteLaunchFile(launch));
  // Sources are moved out of the way first, because one may have another one's target number.
  std::vector<UniqueFd> spare;
  std::vector<int> fds;
  for (const int fd : {theirs.get(), file.get()}) fds.push_back(fd);
  fds.insert(fds.end(), held_port_fds.begin(), held_port_fds.end());
  for (int& fd : fds) {
    // Above every number that the shim expects.
    const int least = common::kWorkerConnectionFd + static_cast<int>(fds.size());
    spare.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, least));
    if (!spare.back().valid()) return ErrnoStatus("cannot duplicate a descriptor for the shim");
    fd = spare.back().get();
  }
  const pid_t pid = StartShim(shim_binary, launch, fds);
  if (pid < 0) {
    unlink(LaunchPath(launch.attempt_dir).c_str());  // nothing was started, so it may be retried
    errno = -pid;
    const absl::Status status = ErrnoStatus(common::StrCat("cannot start ", shim_binary));
    // The node can start no more processes: as with descriptors, others use them up.
    return pid == -EAGAIN ? absl::AbortedError(common::MessageOf(status)) : status;
  }
  return std::unique_ptr<ShimClient>(new ShimClient(std::move(launch), std::move(ours), pid, true));
}

absl::StatusOr<std::unique_ptr<ShimClient>> ShimClient::Adopt(const std::string& attempt_dir,
                                                              int timeout_ms) {
  const int64_t deadline = common::MonotonicMicros() + timeout_ms * int64_t{1000};
  while (true) {
    if (!ShimLives(attempt_dir)) {
      return absl::NotFoundError(common::StrCat("no shim is alive for ", attempt_dir));
    }
    // A truncated file belongs to a worker that was killed before it spawned the shim: its lock is
    // gone too.
    ASSIGN_OR_RETURN(ShimLaunch launch, ReadShimLaunch(attempt_dir));
    absl::StatusOr<UniqueFd> connection = Connect(launch.socket_path);
    if (connection.ok()) {
      for (common::RankLaunch& rank : launch.ranks) std::vector<std::string>().swap(rank.env);
      return std::unique_ptr<ShimClient>(
          new ShimClient(std::move(launch), *std::move(connection), 0, false));
    }
    if (common::MonotonicMicros() > deadline) {
      return absl::UnavailableError(
          common::StrCat("the shim of ", attempt_dir,
                         " is alive but does not answer: ", connection.status().message()));
    }
    poll(nullptr, 0, 1);
  }
}

absl::StatusOr<std::vector<ShimEvent>> ShimClient::Read() {
  std::vector<ShimEvent> events;
  while (connection_.valid()) {
    ShimPacket packet;
    const ssize_t count = recv(connection_.get(), &packet, sizeof packet, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    // The shim exited with an order of ours unread. The error is reported once, before what it had
    // sent.
    if (count < 0 && errno == ECONNRESET) continue;
    if (count <= 0) {
      Close();
      break;
    }
    heard_ = true;
    if (packet.kind == PacketKind::kHello) {
      version_ = packet.version;
      if (Text(packet) != launch_.mark) {
        Close();
        return absl::FailedPreconditionError(common::StrCat(
            "the shim at ", launch_.socket_path, " is ", Text(packet), ", not ", launch_.mark));
      }
      pid_ = packet.pid;
    }
    AppendEvent(packet, &events);
  }
  if (!unsent_.empty()) Send(ShimPacket{});
  return events;
}

void ShimClient::Close() {
  connection_.Reset();
  unsent_.clear();
  if (!child_) return;
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (pidfd.valid()) {
    pollfd entry{pidfd.get(), POLLIN, 0};
    poll(&entry, 1, kShimExitWaitMs);
  }
  if (waitpid(pid_, nullptr, WNOHANG) == pid_) child_ = false;
}

void ShimClient::Stop(uint32_t grace_ms) {
  ShimPacket packet;
  packet.kind = PacketKind::kStop;
  packet.grace_ms = grace_ms;
  Send(packet);
}

bool ShimClient::Ping() {
  if (version_ != 0 && version_ < common::kShimAnswersSince) return false;
  ShimPacket packet;
  packet.kind = PacketKind::kPing;
  Send(packet);
  return true;
}

void ShimClient::Signal(int signal) {
  ShimPacket packet;
  packet.kind = PacketKind::kSignal;
  packet.signal = signal;
  Send(packet);
}

void ShimClient::MoveFence(int64_t fence_mono_ms) {
  ShimPacket packet;
  packet.kind = PacketKind::kFence;
  packet.offset = static_cast<uint64_t>(fence_mono_ms);
  Send(packet);
}

void ShimClient::Trim(uint32_t rank, common::Stream stream, uint64_t offset,
                      uint64_t index_records) {
  ShimPacket packet;
  packet.kind = PacketKind::kTrim;
  packet.rank = rank;
  packet.stream = static_cast<uint32_t>(stream);
  packet.offset = offset;
  packet.index_records = index_records;
  Send(packet);
}

void ShimClient::SpoolSeen() {
  ShimPacket packet;
  packet.kind = PacketKind::kSpoolSeen;
  Send(packet);
}

// A packet of kind kHello only flushes. A newer trim of the same stream replaces an unsent one;
// every stop counts, because the shortest grace applies, and so does every signal.
void ShimClient::Send(const ShimPacket& packet) {
  if (!connection_.valid()) return;
  if (packet.kind != PacketKind::kHello) {
    std::erase_if(unsent_, [&packet](const ShimPacket& waiting) {
      return waiting.kind == packet.kind && waiting.rank == packet.rank &&
             waiting.stream == packet.stream && packet.kind != PacketKind::kSignal &&
             packet.kind != PacketKind::kStop;
    });
    unsent_.push_back(packet);
  }
  if (!child_ && version_ == 0) return;  // it may still turn out to be another attempt's
  size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t count =
        send(connection_.get(), &unsent_[sent], sizeof(ShimPacket), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    // Gone or full: Read detects the former, and is called for the latter when the shim answers.
    if (count < 0) break;
    ++sent;
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent));
}

}  // namespace muster::worker
