#include "client/connection/socket_trust.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "absl/strings/str_format.h"
#include "client/command_line/errors.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr mode_t kOfOthers = 0077;
constexpr mode_t kWriteOfOthers = 0022;

bool IsUsOrRoot(uid_t uid) { return uid == geteuid() || uid == 0; }

absl::Status Unsafe(const std::string& what, const std::string& fix) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1304", .what = StrCat(what, "; nothing was sent"), .fix = fix});
}

std::string OwnerAndMode(const struct stat& info) {
  const char* kind = S_ISLNK(info.st_mode)   ? "a symbolic link"
                     : S_ISDIR(info.st_mode) ? "a directory"
                                             : "a file";
  return absl::StrFormat("%s of uid %d, mode %04o", kind, info.st_uid, info.st_mode & 07777);
}

// The uid of the listening process; nothing if there is none. The kernel records it at listen(2).
absl::StatusOr<std::optional<uid_t>> Listener(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return std::optional<uid_t>();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const common::UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return std::optional<uid_t>();
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return common::ErrnoStatus(StrCat("cannot determine which process listens at ", path));
  }
  return std::optional<uid_t>(peer.uid);
}

std::string OwnDirectory() { return "export JOBCTL_RUNTIME_DIR=$HOME/.muster-run"; }

}  // namespace

absl::Status CheckPrivateDirectory(const std::string& directory) {
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0) {
    return Unsafe(StrCat(directory, " cannot be inspected"), OwnDirectory());
  }
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & kOfOthers) == 0) {
    return absl::OkStatus();
  }
  return Unsafe(
      StrCat(directory, " is ", OwnerAndMode(info), ", but must be owned by you (uid ", geteuid(),
             ") with access for you only: it holds your private coordinator's socket"),
      info.st_uid == geteuid() && S_ISDIR(info.st_mode)
          ? StrCat("chmod 0700 ", directory)
          : StrCat(OwnDirectory(), ", or have ", directory, " removed"));
}

absl::Status CheckPrivateSocket(const std::string& directory, const std::string& socket_path) {
  RETURN_IF_ERROR(CheckPrivateDirectory(directory));
  struct stat info {};
  if (lstat(socket_path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode) || !IsUsOrRoot(info.st_uid)) {
    return Unsafe(StrCat(socket_path, " is ", OwnerAndMode(info), " and not a socket that you own"),
                  StrCat("rm ", socket_path));
  }
  ASSIGN_OR_RETURN(const std::optional<uid_t> listener, Listener(socket_path));
  if (!listener.has_value() || IsUsOrRoot(*listener)) return absl::OkStatus();
  return Unsafe(StrCat("a process of uid ", *listener, " is listening at ", socket_path,
                       ", the socket of your private coordinator"),
                StrCat("rm ", socket_path));
}

absl::Status CheckServerSocket(const std::string& socket_path) {
  ASSIGN_OR_RETURN(const std::optional<uid_t> listener, Listener(socket_path));
  if (!listener.has_value()) return absl::OkStatus();  // the connection reports why
  const size_t slash = socket_path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                                           : socket_path.substr(0, slash);
  struct stat where {};
  struct stat socket {};
  const std::string fix =
      "ask its administrator for a socket in a directory that only its user can write to";
  if (stat(directory.c_str(), &where) != 0 || stat(socket_path.c_str(), &socket) != 0) {
    return Unsafe(StrCat(socket_path, " cannot be inspected"), fix);
  }
  const bool others_write = (where.st_mode & kWriteOfOthers) != 0;
  // In a sticky directory such as /tmp, only the socket's owner can replace it.
  const bool sticky = (where.st_mode & S_ISVTX) != 0 && IsUsOrRoot(socket.st_uid);
  if (others_write && !sticky) {
    return Unsafe(
        StrCat("other users can replace ", socket_path, ": its directory is ", OwnerAndMode(where)),
        fix);
  }
  if (IsUsOrRoot(*listener) || (!others_write && *listener == where.st_uid)) {
    return absl::OkStatus();
  }
  return Unsafe(StrCat("a process of uid ", *listener, " is listening at ", socket_path,
                       ": neither yours, nor root's, nor that of the directory's owner (uid ",
                       where.st_uid, ")"),
                fix);
}

}  // namespace muster::client
