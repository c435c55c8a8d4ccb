#include "coordinator/net/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int kBacklog = 4'096;

bool IsServed(const std::string& path) {
  common::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return fd.valid() &&
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

absl::Status CheckDirectory(const std::string& directory, bool is_private) {
  RETURN_IF_ERROR(common::MakeDirectories(directory));
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) {
    return common::ErrnoStatus(StrCat("cannot use ", directory));
  }
  if (!is_private) return absl::OkStatus();
  if (info.st_uid != getuid()) {
    return common::MakeProblem(absl::StatusCode::kPermissionDenied,
                               {.code = "JC1304",
                                .what = StrCat(directory, " belongs to uid ", info.st_uid,
                                               ", not to you (uid ", getuid(), ")"),
                                .fix = "set JOBCTL_RUNTIME_DIR to a directory that you own"});
  }
  if ((info.st_mode & 077) != 0) {
    return common::MakeProblem(absl::StatusCode::kPermissionDenied,
                               {.code = "JC1304",
                                .what = StrCat("others may enter ", directory),
                                .fix = StrCat("chmod 700 ", directory)});
  }
  return absl::OkStatus();
}

// A listening socket, or an invalid descriptor and errno. A nonzero port is required; 0 picks one.
common::UniqueFd BindTo(const addrinfo& info, uint16_t* port) {
  sockaddr_storage address{};
  std::memcpy(&address, info.ai_addr, info.ai_addrlen);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  const bool is_v6 = info.ai_family == AF_INET6;
  if (*port != 0) (is_v6 ? v6->sin6_port : v4->sin_port) = htons(*port);
  common::UniqueFd fd(socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const int yes = 1;
  // A previous process's connections may linger on the port; a second listener is still rejected.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (is_v6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  socklen_t size = info.ai_addrlen;
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), kBacklog) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int error = errno;
    fd.Reset();
    errno = error;
    return fd;
  }
  *port = ntohs(is_v6 ? v6->sin6_port : v4->sin_port);
  return fd;
}

}  // namespace

absl::Status PrepareSocket(const std::string& path, bool is_private) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1309",
         .what = StrCat("the socket path ", path, " has ", path.size(),
                        " bytes; the system allows ", sizeof(sockaddr_un::sun_path) - 1),
         .fix = "use a shorter --socket"});
  }
  const std::string directory = std::filesystem::path(path).parent_path().string();
  RETURN_IF_ERROR(CheckDirectory(directory.empty() ? "." : directory, is_private));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                               {.code = "JC1309",
                                .what = StrCat(path, " exists and is not a socket"),
                                .fix = "use another --socket"});
  }
  if (IsServed(path)) {
    return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                               {.code = "JC1309",
                                .what = StrCat("another process is listening on ", path),
                                .fix = "stop it, or use another --socket"});
  }
  if (unlink(path.c_str()) != 0) return common::ErrnoStatus(StrCat("cannot remove ", path));
  return absl::OkStatus();
}

absl::StatusOr<common::UniqueFd> ListenOnSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  common::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The file gets its mode from the socket.
  if (fd.valid() && fchmod(fd.get(), 0600) == 0 &&
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(fd.get(), kBacklog) == 0) {
    return fd;
  }
  return common::MakeProblem(absl::StatusCode::kUnavailable,
                             {.code = "JC1309",
                              .what = StrCat("cannot listen on ", path),
                              .why = std::strerror(errno),
                              .fix = "use another --socket"});
}

absl::StatusOr<TcpPort> ListenOnPort(const std::string& address, std::string_view flag) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  std::string bare = host;
  if (bare.size() > 2 && bare.front() == '[' && bare.back() == ']') {
    bare = bare.substr(1, bare.size() - 2);
  }
  std::string port = address.substr(colon + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(bare.empty() ? nullptr : bare.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                               {.code = "JC1309",
                                .what = StrCat(flag, " ", address, " is not an address"),
                                .why = gai_strerror(error),
                                .fix = "use ADDR:PORT"});
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  TcpPort result;
  int bind_error = 0;
  uint16_t real_port = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    // With port 0 the first address picks the port, and the others use the same.
    common::UniqueFd fd = BindTo(*at, &real_port);
    if (fd.valid()) {
      result.fds.push_back(std::move(fd));
    } else if (bind_error == 0) {
      bind_error = errno;
    }
  }
  if (!result.fds.empty()) {
    result.endpoint = StrCat(host, ":", real_port);
    return result;
  }
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1309",
       .what = StrCat("cannot listen on ", address),
       .why = std::strerror(bind_error),
       .fix = bind_error == EADDRINUSE
                  ? StrCat("stop the process that uses port ", port, " (ss -ltnp | grep :", port,
                           "), or use another ", flag)
                  : StrCat("use another ", flag)});
}

}  // namespace muster::coordinator
