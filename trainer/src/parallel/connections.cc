// Looks through /proc/self/fd; see connections.h.
#include "parallel/connections.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>

namespace muster {
namespace {

bool is_connected_tcp(int fd) {
  int type = 0;
  socklen_t bytes = sizeof(type);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM) {
    return false;
  }
  sockaddr_storage peer{};
  bytes = sizeof(peer);
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
         (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

bool is_still(const SocketIdentity& socket) {
  struct stat status {};
  return ::fstat(socket.fd, &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_ino == socket.inode;
}

}  // namespace

std::vector<SocketIdentity> connected_sockets() {
  std::vector<SocketIdentity> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    struct stat status {};
    if (fd < 0 || ::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    if (is_connected_tcp(fd)) sockets.push_back({fd, status.st_ino});
  }
  return sockets;
}

std::vector<SocketIdentity> new_sockets(const std::vector<SocketIdentity>& before,
                                        const std::vector<SocketIdentity>& after) {
  std::vector<SocketIdentity> fresh;
  for (const SocketIdentity& socket : after) {
    if (std::find(before.begin(), before.end(), socket) == before.end()) fresh.push_back(socket);
  }
  return fresh;
}

bool any_is_broken(const std::vector<SocketIdentity>& sockets) noexcept {
  for (const SocketIdentity& socket : sockets) {
    if (!is_still(socket)) return true;
    pollfd state{socket.fd, POLLRDHUP, 0};
    if (::poll(&state, 1, 0) > 0) return true;
  }
  return false;
}

void break_connections(const std::vector<SocketIdentity>& sockets) noexcept {
  for (const SocketIdentity& socket : sockets) {
    if (is_still(socket)) ::shutdown(socket.fd, SHUT_RDWR);
  }
}

}  // namespace muster
