// The addresses of --http, opened: the same for a coordinator that leads and for one that stands by.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/server/server_tls.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator::http {

struct HttpListeners {
  std::vector<Listener> listeners;
  std::vector<std::string> sockets;    // to remove at the end
  std::string address;                 // of the first TCP listener, "HOST:PORT"; empty: none
  std::string port;                    // its port
  std::vector<std::string> addresses;  // of all TCP listeners
};

// `listen`: "ADDR:PORT", "unix:PATH". Port 0 picks a free one, the same as last time if it is still free. `tls`: of
// every TCP listener; null: not encrypted. `is_private`: sockets are for our own uid alone.
absl::StatusOr<HttpListeners> OpenListeners(const std::vector<std::string>& listen,
                                            const Paths& paths,
                                            const std::shared_ptr<const ServerTls>& tls,
                                            bool is_private);

inline constexpr std::string_view kUnixListener = "unix:";

}  // namespace muster::coordinator::http
