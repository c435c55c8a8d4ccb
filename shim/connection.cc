#include "shim/connection.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::shim {
namespace {

constexpr int kPacketsPerTurnMax = 64;

bool SameUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

Connection::~Connection() {
  Close();
  if (listener_ >= 0) close(listener_);
}

int Connection::Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.data(), path.size());
  unlink(path.c_str());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener_ < 0) return errno;
  const mode_t mask = umask(077);
  const int bound = bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  const int error = errno;
  umask(mask);
  if (bound != 0) return error;
  path_ = path;
  return listen(listener_, 4) == 0 ? 0 : errno;
}

bool Connection::Accept() {
  const int accepted = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted < 0) return false;
  if (!SameUser(accepted)) {
    close(accepted);
    return false;
  }
  Close();
  fd_ = accepted;
  return true;
}

void Connection::Send(const common::ShimPacket& packet) {
  if (fd_ < 0) return;
  unsent_.push_back(packet);
  Flush();
}

void Connection::Flush() {
  while (fd_ >= 0 && !unsent_.empty()) {
    const ssize_t count =
        send(fd_, &unsent_.front(), sizeof unsent_.front(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) {
      unsent_.clear();  // the worker is gone, but its last packets may still be unread
      return;
    }
    unsent_.pop_front();
  }
}

std::vector<common::ShimPacket> Connection::Receive() {
  std::vector<common::ShimPacket> packets;
  for (int i = 0; fd_ >= 0 && i < kPacketsPerTurnMax; ++i) {
    common::ShimPacket packet;
    const ssize_t count = recv(fd_, &packet, sizeof packet, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    // The worker exited with a packet of ours unread. The error is reported once, before its last
    // packets.
    if (count < 0 && errno == ECONNRESET) continue;
    if (count <= 0) {
      Close();
      break;
    }
    packets.push_back(packet);
  }
  return packets;
}

void Connection::Unlink() {
  if (!path_.empty()) unlink(path_.c_str());
}

void Connection::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  unsent_.clear();
}

}  // namespace muster::shim
