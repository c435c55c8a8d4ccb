// Checked before anything else about a request: that it is addressed to us by one of our names, and was
// not sent by a page of another origin. Loopback does not count as a boundary: any page can make its
// browser send requests to 127.0.0.1, and a domain name that its owner points at 127.0.0.1 makes such a
// page ours in the browser's eyes (DNS rebinding). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/http/server/message.h"

namespace muster::coordinator::http {

// The host in a Host field: "localhost" of "localhost:7701", "::1" of "[::1]:7701", lower case. Empty:
// malformed.
std::string HostName(std::string_view host_field);
// What another coordinator says of itself, before it is shown to browsers.
struct HostAndPort {
  std::string host;  // as HostName: "h2", "::1"
  std::string port;  // "7701"
};
// Nothing: it is not exactly a name or an address and a port from 1 to 65535.
std::optional<HostAndPort> ParseHostAndPort(std::string_view text);
// "h2:7701", "[::1]:7701"
std::string TextOf(const HostAndPort& at);
// Our hosts are the address that the connection arrived at; on loopback and on a socket, "localhost" and
// loopback addresses; and `names`, which the operator has given. Any port: a tunnel changes it.
bool IsOurHost(std::string_view host_field, const Peer& peer,
               const std::vector<std::string>& names);

// OK, or the error to answer with: INVALID_ARGUMENT without exactly one Host, JC1314 for a foreign Host
// (421) or a foreign origin (403). `is_stream`: an event stream, whose origin is checked although it is
// a GET.
absl::Status CheckAddressed(const RequestHead& head, const std::vector<std::string>& names);
std::optional<Response> RefuseForeign(
    const RequestHead& head,
    const std::vector<std::string>& names);  // CheckAddressed as an answer
absl::Status CheckOrigin(const RequestHead& head, bool is_stream, bool by_cookie);

}  // namespace muster::coordinator::http
