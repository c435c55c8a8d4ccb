// Scans /proc/self/fd; see connections.h.
#include "parallel/connections.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <unordered_set>

namespace muster {
namespace {

// The leading bytes of a socket address that identify a listener: family, port and host.
constexpr size_t kBytesV4 = offsetof(sockaddr_in, sin_addr) + sizeof(in_addr);
constexpr size_t kBytesV6 = offsetof(sockaddr_in6, sin6_addr) + sizeof(in6_addr);

size_t bytes_of(sa_family_t family) {
  return family == AF_INET ? kBytesV4 : family == AF_INET6 ? kBytesV6 : 0;
}

std::string address_in(const void* bytes, size_t most) {
  sa_family_t family = 0;
  if (most < sizeof(family)) return "";
  std::memcpy(&family, bytes, sizeof(family));
  const size_t size = bytes_of(family);
  return size <= most ? std::string(static_cast<const char*>(bytes), size) : "";
}

// Everything that looks like an address. False positives are harmless: no socket has such an
// address.
std::unordered_set<std::string> addresses_in(const std::vector<std::string>& messages) {
  std::unordered_set<std::string> addresses;
  for (const std::string& message : messages) {
    for (size_t at = 0; at < message.size(); ++at) {
      std::string address = address_in(message.data() + at, message.size() - at);
      if (!address.empty()) addresses.insert(std::move(address));
    }
  }
  return addresses;
}

// `ask` is getsockname or getpeername; "" if the socket is not TCP or not connected.
template <typename Ask>
std::string end_of(int fd, const Ask& ask) {
  sockaddr_storage end{};
  socklen_t bytes = sizeof(end);
  if (ask(fd, reinterpret_cast<sockaddr*>(&end), &bytes) != 0) return "";
  return address_in(&end, bytes);
}

bool is_stream(int fd) {
  int type = 0;
  socklen_t bytes = sizeof(type);
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

bool is_still(const SocketIdentity& socket) {
  struct stat status {};
  return ::fstat(socket.fd, &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_ino == socket.inode;
}

}  // namespace

std::vector<SocketIdentity> connections_at(const std::vector<std::string>& messages) {
  const std::unordered_set<std::string> known = addresses_in(messages);
  std::vector<SocketIdentity> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    struct stat status {};
    if (fd < 0 || ::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode) || !is_stream(fd)) {
      continue;
    }
    const std::string peer = end_of(fd, ::getpeername);
    if (peer.empty()) continue;
    if (known.contains(peer) || known.contains(end_of(fd, ::getsockname))) {
      sockets.push_back({fd, status.st_ino});
    }
  }
  return sockets;
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
