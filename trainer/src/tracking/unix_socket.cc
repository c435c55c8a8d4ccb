// See unix_socket.h.
#include "tracking/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

namespace muster {

FileDescriptor connect_unix_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return FileDescriptor();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  // On a unix socket, connect() succeeds or fails immediately (EAGAIN: the listener's queue is
  // full).
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
  return fd;
}

}  // namespace muster
