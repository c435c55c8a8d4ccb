#include "coordinator/http/http_listeners.h"

#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/net/listener.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr std::string_view kAnyPort = ":0";
constexpr size_t kPortFileBytesMax = 16;

// The port of the last run, if it is free, so that open pages survive a restart.
absl::StatusOr<TcpPort> ListenOnAnyPort(const std::string& host, const std::string& memory) {
  const absl::StatusOr<std::string> text = common::ReadFile(memory, kPortFileBytesMax);
  uint32_t last = 0;
  if (text.ok() && absl::SimpleAtoi(*text, &last) && last > 0 && last <= UINT16_MAX) {
    absl::StatusOr<TcpPort> again = ListenOnPort(StrCat(host, ":", last), "--http");
    if (again.ok()) return again;
  }
  ASSIGN_OR_RETURN(TcpPort port, ListenOnPort(StrCat(host, kAnyPort), "--http"));
  const std::string number = port.endpoint.substr(port.endpoint.rfind(':') + 1);
  // Logged now: otherwise only the next start would notice.
  if (const absl::Status kept = common::WriteFileDurably(memory, number + "\n"); !kept.ok())
    common::LogWarning(std::string(kept.message()));
  return port;
}

absl::Status ListenOnTcp(const std::string& listen, const Paths& paths,
                         const std::shared_ptr<const ServerTls>& tls, HttpListeners& listeners) {
  const bool is_any = std::string_view(listen).ends_with(kAnyPort);
  const std::string host = listen.substr(0, listen.rfind(':'));
  ASSIGN_OR_RETURN(TcpPort port, is_any ? ListenOnAnyPort(host, paths.HttpPort())
                                        : ListenOnPort(listen, "--http"));
  if (listeners.address.empty()) {
    listeners.address = port.endpoint;
    listeners.port = port.endpoint.substr(port.endpoint.rfind(':') + 1);
  }
  listeners.addresses.push_back(port.endpoint);
  for (common::UniqueFd& fd : port.fds) {
    listeners.listeners.push_back({.fd = std::move(fd), .tls = tls});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HttpListeners> OpenListeners(const std::vector<std::string>& listen,
                                            const Paths& paths,
                                            const std::shared_ptr<const ServerTls>& tls,
                                            bool is_private) {
  HttpListeners listeners;
  for (const std::string& each : listen) {
    if (!std::string_view(each).starts_with(kUnixListener)) {
      RETURN_IF_ERROR(ListenOnTcp(each, paths, tls, listeners));
      continue;
    }
    const std::string path = each.substr(kUnixListener.size());
    RETURN_IF_ERROR(PrepareSocket(path, is_private));
    ASSIGN_OR_RETURN(common::UniqueFd fd, ListenOnSocket(path));
    listeners.listeners.push_back(
        {.fd = std::move(fd), .is_unix = true, .own_uid_only = is_private});
    listeners.sockets.push_back(path);
  }
  return listeners;
}

}  // namespace muster::coordinator::http
