#include "worker/rendezvous/port_block.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::worker {
namespace {

using common::StrCat;

// ALREADY_EXISTS: another attempt has it.
absl::StatusOr<common::UniqueFd> Claim(const common::DeviceKind& kind, uint16_t first) {
  const std::string name = StrCat("muster/", kind.name, "/", first);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  CHECK(name.size() < sizeof address.sun_path);  // the kinds' names are rows of our own table
  // The first byte stays 0: an abstract name.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  common::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return common::ErrnoStatus("cannot make a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  if (errno == EADDRINUSE) return absl::AlreadyExistsError(name);
  return common::ErrnoStatus(StrCat("cannot bind @", name));
}

// The first port of the block that another program has bound; 0: none. A port in TIME_WAIT counts, as
// HCCL could not bind it either.
absl::StatusOr<uint32_t> FirstBound(uint32_t first, uint32_t ports) {
  for (uint32_t port = first; port < first + ports; ++port) {
    const absl::Status free = PortHolder::HoldExactly(static_cast<uint16_t>(port)).status();
    if (absl::IsAlreadyExists(free)) return port;
    RETURN_IF_ERROR(free);  // no descriptor is left
  }
  return 0;
}

}  // namespace

absl::StatusOr<PortBlock> LeasePortBlock(const common::DeviceKind& kind, uint64_t turn) {
  if (kind.ports == 0) return PortBlock();
  const uint32_t blocks = (kind.last_port - kind.first_port + 1u) / kind.ports;
  uint32_t leased = 0, bound = 0, example = 0;
  for (uint32_t tried = 0; tried < blocks; ++tried) {
    const auto index = static_cast<uint32_t>((turn + tried) % blocks);
    const auto first = static_cast<uint16_t>(kind.first_port + index * kind.ports);
    // Before the look at its ports, so that no other worker looks at them at the same time.
    absl::StatusOr<common::UniqueFd> claim = Claim(kind, first);
    if (absl::IsAlreadyExists(claim.status())) {
      ++leased;
      continue;
    }
    RETURN_IF_ERROR(claim.status());
    ASSIGN_OR_RETURN(const uint32_t port, FirstBound(first, kind.ports));
    if (port == 0) return PortBlock{first, *std::move(claim)};
    ++bound;
    if (example == 0) example = port;
  }
  return absl::ResourceExhaustedError(
      StrCat("no block of ", kind.ports, " ports for ", kind.name, " ranks is free in ",
             kind.first_port, "-", kind.last_port, ": other attempts on this host lease ", leased,
             ", other programs have bound ports in ", bound,
             example == 0 ? "" : StrCat(" (port ", example, ")"),
             "; fix: end what binds them (ss -tanp), or wait until other ", kind.name,
             " jobs on this host end"));
}

}  // namespace muster::worker
