#include "worker/rendezvous/port_holder.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::ErrnoStatus;
using common::UniqueFd;

constexpr uint16_t kLowestPort = 1024;
// The kernel's default range overlaps one in 28 ports with those of devices.
constexpr int kTriesOutside = 64;

bool Reserved(uint32_t port) {
  return port == 29400 || port == 29500 || common::IsDevicePort(port);
}

// [::] without IPV6_V6ONLY claims the port in both families.
absl::StatusOr<UniqueFd> BindPlainly(int family, uint16_t port) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus("cannot make a socket");
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  const int off = 0;
  if (family == AF_INET6 &&
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) {
    return absl::UnavailableError("IPv6 sockets here cannot serve IPv4");
  }
  const int bound = family == AF_INET6
                        ? bind(fd.get(), reinterpret_cast<sockaddr*>(&v6), sizeof v6)
                        : bind(fd.get(), reinterpret_cast<sockaddr*>(&v4), sizeof v4);
  if (bound != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(common::StrCat("port ", port, " is in use"));
    }
    if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) {
      return absl::UnavailableError(std::strerror(errno));
    }
    return ErrnoStatus(common::StrCat("cannot bind port ", port));
  }
  return fd;
}

absl::StatusOr<uint16_t> PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus("cannot read a socket's address");
  }
  // The port is at the same position in both families.
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

absl::StatusOr<PortRange> ParsePortRange(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return absl::InvalidArgumentError(
        common::StrCat("port range '", text, "' ", why, "; fix: use LO-HI, e.g. 20000-28999"));
  };
  const size_t dash = text.find('-');
  uint32_t first = 0, last = 0;
  if (dash == std::string_view::npos ||
      !absl::SimpleAtoi(common::ToAbsl(text.substr(0, dash)), &first) ||
      !absl::SimpleAtoi(common::ToAbsl(text.substr(dash + 1)), &last)) {
    return bad("is not two numbers");
  }
  if (first < kLowestPort || last > UINT16_MAX) return bad("leaves 1024-65535");
  if (first > last) return bad("is empty");
  return PortRange{static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

PortHolder::PortHolder(PortRange range, uint64_t seed) : range_(range), next_(seed) {}

absl::StatusOr<HeldPort> PortHolder::HoldExactly(uint16_t port) {
  absl::StatusOr<UniqueFd> fd = BindPlainly(AF_INET6, port);
  if (!fd.ok() && fd.status().code() != absl::StatusCode::kAlreadyExists) {
    fd = BindPlainly(AF_INET, port);
  }
  if (!fd.ok()) return fd.status();
  // After the bind, never before it: this order makes a second holder fail.
  const int one = 1;
  if (setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) {
    return ErrnoStatus("cannot set SO_REUSEADDR");
  }
  ASSIGN_OR_RETURN(const uint16_t bound, PortOf(fd->get()));
  return HeldPort{bound, *std::move(fd)};
}

absl::StatusOr<std::vector<HeldPort>> PortHolder::HoldOutside() {
  std::vector<HeldPort> refused;  // held until another one is found
  for (int tries = 0; tries < kTriesOutside; ++tries) {
    ASSIGN_OR_RETURN(HeldPort any, HoldExactly(0));
    refused.push_back(std::move(any));
    const uint16_t port = refused.back().port;
    if (Reserved(port) || common::IsInDeviceBlocks(port)) continue;
    refused.erase(refused.begin(), refused.end() - 1);
    return refused;
  }
  return absl::ResourceExhaustedError("no port is free; fix: end what binds them on this node");
}

absl::StatusOr<HeldPort> PortHolder::HoldOnLoopback() {
  std::vector<UniqueFd> refused;  // held until another one is found
  for (int tries = 0; tries < kTriesOutside; ++tries) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return ErrnoStatus("cannot make a socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      if (errno == EADDRINUSE) break;
      return ErrnoStatus("cannot bind a port on 127.0.0.1");
    }
    ASSIGN_OR_RETURN(const uint16_t port, PortOf(fd.get()));
    if (!Reserved(port) && !common::IsInDeviceBlocks(port)) return HeldPort{port, std::move(fd)};
    refused.push_back(std::move(fd));
  }
  return absl::ResourceExhaustedError(
      "no port is free on 127.0.0.1; fix: end what binds them on this node");
}

absl::StatusOr<std::vector<HeldPort>> PortHolder::Hold(uint32_t count, bool contiguous) {
  const uint32_t size = range_.last - range_.first + 1u;
  std::vector<HeldPort> held;
  absl::Status other = absl::OkStatus();
  for (uint32_t tried = 0; tried < size && held.size() < count; ++tried) {
    const uint32_t port = range_.first + static_cast<uint32_t>(next_++ % size);
    // A contiguous range must not wrap around the end.
    if (contiguous && port == range_.first) held.clear();
    absl::StatusOr<HeldPort> one = absl::AlreadyExistsError("reserved");
    if (!Reserved(port)) one = HoldExactly(static_cast<uint16_t>(port));
    if (one.ok()) {
      held.push_back(*std::move(one));
      continue;
    }
    if (one.status().code() != absl::StatusCode::kAlreadyExists) other = one.status();
    if (contiguous) held.clear();
  }
  if (held.size() == count) return held;
  return absl::ResourceExhaustedError(common::StrCat(
      "no ", count, contiguous ? " ports in a row" : " ports", " free in ", range_.first, "-",
      range_.last, other.ok() ? "" : common::StrCat(" (", other.message(), ")"),
      "; fix: give the worker a wider --port-range"));
}

}  // namespace muster::worker
