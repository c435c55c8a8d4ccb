#include "coordinator/listener.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

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
    return absl::PermissionDeniedError(
        StrCat("[JC1304] ", directory, " belongs to uid ", info.st_uid, ", not to you (uid ",
               getuid(), "); fix: set JOBCTL_RUNTIME_DIR to a directory of yours"));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        StrCat("[JC1304] others may enter ", directory, "; fix: chmod 700 ", directory));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareSocket(const std::string& path, bool is_private) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(StrCat(
        "[JC1309] the socket path ", path, " has ", path.size(), " bytes; the system allows ",
        sizeof(sockaddr_un::sun_path) - 1, "; fix: name a shorter --socket"));
  }
  const std::string directory = std::filesystem::path(path).parent_path().string();
  RETURN_IF_ERROR(CheckDirectory(directory.empty() ? "." : directory, is_private));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::AlreadyExistsError(
        StrCat("[JC1309] ", path, " exists and is not a socket; fix: name another --socket"));
  }
  if (IsServed(path)) {
    return absl::AlreadyExistsError(StrCat("[JC1309] another process serves ", path,
                                           "; fix: stop it, or name another --socket"));
  }
  if (unlink(path.c_str()) != 0) return common::ErrnoStatus(StrCat("cannot remove ", path));
  return absl::OkStatus();
}

absl::Status CheckPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(StrCat("[JC1309] --listen ", address, " is no address: ",
                                             gai_strerror(error), "; fix: write ADDR:PORT"));
  }
  common::UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool is_free = fd.valid() && bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 &&
                       listen(fd.get(), 1) == 0;
  const int bind_error = errno;
  freeaddrinfo(found);
  if (is_free) return absl::OkStatus();
  return absl::UnavailableError(StrCat(
      "[JC1309] cannot listen on ", address, ": ", std::strerror(bind_error),
      bind_error == EADDRINUSE ? StrCat("; fix: stop what uses port ", port,
                                        " (ss -ltnp | grep :", port, "), or name another --listen")
                               : std::string("; fix: name another --listen")));
}

}  // namespace muster::coordinator
