#include "client/export/http.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::client {
namespace {

using common::StrCat;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kScheme = "http://";

// Waits until the socket is ready; false at the deadline.
bool WaitFor(int fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd polled{fd, events, 0};
    const int ready = poll(&polled, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

absl::StatusOr<common::UniqueFd> ConnectTo(const addrinfo& address, Clock::time_point deadline) {
  common::UniqueFd fd(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (!fd.valid()) return absl::UnavailableError(strerror(errno));
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return absl::UnavailableError(strerror(errno));
  if (!WaitFor(fd.get(), POLLOUT, deadline)) return absl::UnavailableError("no answer in time");
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return absl::UnavailableError(strerror(error));
  return fd;
}

absl::StatusOr<common::UniqueFd> ConnectToUrl(const HttpUrl& url, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &list);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  absl::Status last = absl::UnavailableError("the host has no address");
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    absl::StatusOr<common::UniqueFd> fd = ConnectTo(*address, deadline);
    if (fd.ok()) return fd;
    last = fd.status();
  }
  return last;
}

absl::Status SendAll(int fd, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (sent < 0 && errno == EAGAIN) {
      if (!WaitFor(fd, POLLOUT, deadline)) return absl::AbortedError("no answer in time");
    } else if (sent < 0 && errno != EINTR) {
      return absl::AbortedError(strerror(errno));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HttpResponse> Receive(int fd, Clock::time_point deadline) {
  std::string bytes;
  char buffer[16384];
  while (true) {
    if (!WaitFor(fd, POLLIN, deadline)) return absl::AbortedError("no answer in time");
    const ssize_t count = recv(fd, buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return absl::AbortedError(strerror(errno));
    bytes.append(buffer, static_cast<size_t>(count));
    auto response = common::ParseHttpResponse(bytes, count == 0);
    if (!response.ok()) return absl::AbortedError(common::MessageOf(response.status()));
    if (response->has_value()) return **std::move(response);
  }
}

}  // namespace

absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text) {
  if (!text.starts_with(kScheme)) {
    return absl::InvalidArgumentError("only http:// URLs are supported");
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7F || c == '?' || c == '#' || c == '@') {
      return absl::InvalidArgumentError(
          "a user, a query, spaces and control characters are not "
          "supported");
    }
  }
  text.remove_prefix(kScheme.size());
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  HttpUrl url{.port = "80", .path = std::string(text.substr(slash))};
  while (url.path.ends_with('/')) url.path.pop_back();
  size_t colon = authority.rfind(':');
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return absl::InvalidArgumentError("\"]\" is missing");
    if (colon < bracket) colon = std::string_view::npos;
    url.host = std::string(authority.substr(1, bracket - 1));
  } else {
    url.host = std::string(authority.substr(0, colon));
  }
  if (colon != std::string_view::npos) url.port = std::string(authority.substr(colon + 1));
  uint32_t port = 0;
  if (url.host.empty() || !absl::SimpleAtoi(url.port, &port) || port == 0 || port > 65535) {
    return absl::InvalidArgumentError("host or port is missing or wrong");
  }
  return url;
}

absl::StatusOr<HttpResponse> SendHttp(const HttpUrl& url, const HttpRequest& request,
                                      int64_t timeout_ms) {
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  ASSIGN_OR_RETURN(const common::UniqueFd fd, ConnectToUrl(url, deadline));
  const bool is_v6 = url.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? StrCat("[", url.host, "]") : url.host;
  const std::string head = StrCat(
      request.method, " ", url.path, request.path, " HTTP/1.1\r\nHost: ", host, ":", url.port,
      "\r\nUser-Agent: jobctl\r\nAccept: application/json\r\nConnection: close\r\n",
      "Content-Type: application/json\r\nContent-Length: ", request.body.size(), "\r\n\r\n");
  RETURN_IF_ERROR(SendAll(fd.get(), head + request.body, deadline));
  return Receive(fd.get(), deadline);
}

}  // namespace muster::client
