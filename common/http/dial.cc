#include "common/http/dial.h"

#include <netdb.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace muster::common {
namespace {

// getaddrinfo in one of the C library's threads: a name server may take longer than we wait.
struct Lookup {
  gaicb request{};
  std::string host, port;
  addrinfo hints{};
};

std::unique_ptr<Lookup> MakeLookup(const HttpUrl& url) {
  auto lookup = std::make_unique<Lookup>();
  lookup->host = url.host;
  lookup->port = std::to_string(url.port);
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->hints.ai_flags = AI_NUMERICSERV;
  lookup->request.ar_name = lookup->host.c_str();
  lookup->request.ar_service = lookup->port.c_str();
  lookup->request.ar_request = &lookup->hints;
  return lookup;
}

absl::StatusOr<std::shared_ptr<addrinfo>> Resolve(const HttpUrl& url, const Deadline& deadline) {
  std::unique_ptr<Lookup> lookup = MakeLookup(url);
  gaicb* request = &lookup->request;
  if (const int error = getaddrinfo_a(GAI_NOWAIT, &request, 1, nullptr); error != 0)
    return absl::NotFoundError(gai_strerror(error));
  while (gai_error(request) == EAI_INPROGRESS) {
    const timespec slice{0, Deadline::kSlice.count() * 1'000'000};
    gai_suspend(&request, 1, &slice);
    const absl::Status waits = deadline.Check();
    if (waits.ok() || gai_error(request) != EAI_INPROGRESS) continue;
    // If it cannot be cancelled, that thread still uses it: then it is never freed.
    if (gai_cancel(request) != EAI_CANCELED) static_cast<void>(lookup.release());
    return waits;
  }
  if (const int error = gai_error(request); error != 0)
    return absl::NotFoundError(gai_strerror(error));
  return std::shared_ptr<addrinfo>(request->ar_result, freeaddrinfo);
}

absl::StatusOr<UniqueFd> ConnectTo(const addrinfo& address, const Deadline& deadline) {
  UniqueFd socket_fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd.valid()) return absl::UnavailableError(strerror(errno));
  if (connect(socket_fd.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
    return absl::UnavailableError(strerror(errno));
  RETURN_IF_ERROR(deadline.AwaitSocket(socket_fd.get(), POLLOUT));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket_fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return absl::UnavailableError(strerror(error));
  return socket_fd;
}

}  // namespace

absl::StatusOr<UniqueFd> Dial(const HttpUrl& url,
                              const std::function<absl::Status(const sockaddr*)>& may_call,
                              const Deadline& deadline) {
  ASSIGN_OR_RETURN(const std::shared_ptr<addrinfo> found, Resolve(url, deadline));
  absl::Status last = absl::UnavailableError("the host has no address");
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    if (absl::Status may = may_call ? may_call(each->ai_addr) : absl::OkStatus(); !may.ok()) {
      last = std::move(may);
      continue;
    }
    absl::StatusOr<UniqueFd> connected = ConnectTo(*each, deadline);
    if (connected.ok() || absl::IsCancelled(connected.status())) return connected;
    last = absl::UnavailableError(MessageOf(connected.status()));
  }
  return last;
}

}  // namespace muster::common
