#include "rendezvous/peer_account.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/files/files.h"
#include "common/files/plain_files.h"

namespace muster::rendezvous {
namespace {

struct Ends {
  sockaddr_in ours{}, theirs{};
};

std::optional<Ends> EndsOf(int fd) {
  Ends ends;
  socklen_t size = sizeof ends.ours;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&ends.ours), &size) != 0) return std::nullopt;
  size = sizeof ends.theirs;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&ends.theirs), &size) != 0) return std::nullopt;
  if (ends.ours.sin_family != AF_INET) return std::nullopt;
  return ends;
}

// The peer's socket is the one whose local end is our remote one. A client that connects to 127.0.0.1 from an IPv6
// socket is listed under IPv6, with mapped addresses.
inet_diag_sockid IdOf(const Ends& ends, int family) {
  inet_diag_sockid id{};
  id.idiag_sport = ends.theirs.sin_port;
  id.idiag_dport = ends.ours.sin_port;
  const int last = family == AF_INET6 ? 3 : 0;
  if (family == AF_INET6) id.idiag_src[2] = id.idiag_dst[2] = htonl(0xFFFF);
  id.idiag_src[last] = ends.theirs.sin_addr.s_addr;
  id.idiag_dst[last] = ends.ours.sin_addr.s_addr;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return id;
}

// `told`: set if the kernel knows whether there is such a connection.
std::optional<uid_t> AskKernel(int netlink, const Ends& ends, int family, bool* told) {
  struct {
    nlmsghdr header{};
    inet_diag_req_v2 request{};
  } ask;
  ask.header.nlmsg_len = sizeof ask;
  ask.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  ask.header.nlmsg_flags = NLM_F_REQUEST;
  ask.request.sdiag_family = static_cast<uint8_t>(family);
  ask.request.sdiag_protocol = IPPROTO_TCP;
  ask.request.idiag_states = ~0u;
  ask.request.id = IdOf(ends, family);
  if (send(netlink, &ask, sizeof ask, 0) != static_cast<ssize_t>(sizeof ask)) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  const ssize_t count = recv(netlink, answer.data(), answer.size(), MSG_DONTWAIT);
  if (count < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof(nlmsgerr))) return std::nullopt;
  nlmsghdr header;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error;
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
    *told = *told || error.error == -ENOENT;
    return std::nullopt;
  }
  if (count < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof(inet_diag_msg))) return std::nullopt;
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg found;
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof found);
  // The kernel answers with a listener if no connection fits.
  if (found.id.idiag_sport != ask.request.id.idiag_sport ||
      found.id.idiag_dport != ask.request.id.idiag_dport) {
    return std::nullopt;
  }
  *told = true;
  // A socket that its process has closed is listed as root's, without an inode: what it has sent may be of any
  // account.
  if (found.idiag_inode == 0) return std::nullopt;
  return found.idiag_uid;
}

// Where the kernel was built without inet_diag.
std::optional<uid_t> SearchTable(const char* path, const Ends& ends) {
  std::string text;
  if (!common::ReadSmallFile(path, &text)) return std::nullopt;
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    char local[64] = {}, remote[64] = {};
    unsigned local_port = 0, remote_port = 0, uid = 0;
    unsigned long inode = 0;
    if (std::sscanf(text.c_str() + at,
                    " %*d: %63[0-9A-F]:%x %63[0-9A-F]:%x %*x %*s %*s %*x %u %*d %lu", local,
                    &local_port, remote, &remote_port, &uid, &inode) != 6) {
      continue;
    }
    char address[16];
    std::snprintf(address, sizeof address, "%08X", ends.theirs.sin_addr.s_addr);
    const std::string_view found(local);
    if (local_port == ntohs(ends.theirs.sin_port) && remote_port == ntohs(ends.ours.sin_port) &&
        found.size() >= 8 && found.substr(found.size() - 8) == address) {
      if (inode == 0) return std::nullopt;  // closed: see above
      return uid;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<uid_t> AccountOfPeer(int fd) {
  const std::optional<Ends> ends = EndsOf(fd);
  if (!ends) return std::nullopt;
  static const common::UniqueFd netlink(
      socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  bool told = false;
  for (const int family : {AF_INET6, AF_INET}) {
    if (!netlink.valid()) break;
    if (const auto uid = AskKernel(netlink.get(), *ends, family, &told)) return uid;
  }
  if (told) return std::nullopt;
  for (const char* path : {"/proc/self/net/tcp6", "/proc/self/net/tcp"}) {
    if (const auto uid = SearchTable(path, *ends)) return uid;
  }
  return std::nullopt;
}

}  // namespace muster::rendezvous
