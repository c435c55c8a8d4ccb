#include "tests/support/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "common/kernel/pipe_signal.h"

namespace muster::testing {

common::UniqueFd ListenOnLoopback(int* port) {
  common::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), 64) != 0)
    abort();
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  *port = ntohs(address.sin_port);
  return listener;
}

std::string HttpAnswer(const std::string& status, const std::string& body,
                       const std::string& headers) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n" + headers + "\r\n" + body;
}

ScriptedServer::ScriptedServer(Answer answer)
    : answer_(std::move(answer)), listener_(ListenOnLoopback(&port_)) {
  thread_ = std::thread([this] {
    const common::PipeSignalHeld held;
    for (;;) {
      const common::UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid()) return;
      Serve(connection.get());
    }
  });
}

ScriptedServer::~ScriptedServer() {
  shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
}

std::vector<std::string> ScriptedServer::Asked() {
  const std::lock_guard lock(mutex_);
  return asked_;
}

void ScriptedServer::Serve(int connection) {
  std::string bytes;
  size_t end = std::string::npos;
  size_t length = 0;
  char piece[65536];
  while (end == std::string::npos || bytes.size() < end + 4 + length) {
    const ssize_t count = read(connection, piece, sizeof piece);
    if (count <= 0) return;
    bytes.append(piece, static_cast<size_t>(count));
    if (end != std::string::npos) continue;
    end = bytes.find("\r\n\r\n");
    const size_t field = bytes.find("Content-Length: ");
    if (end != std::string::npos && field < end)
      length = strtoul(bytes.c_str() + field + 16, nullptr, 10);
  }
  ServedRequest request{.method = bytes.substr(0, bytes.find(' ')),
                        .head = bytes.substr(0, end + 2),
                        .body = bytes.substr(end + 4)};
  const size_t target = request.method.size() + 1;
  request.target = bytes.substr(target, bytes.find(' ', target) - target);
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(request.method + " " + request.target);
  }
  common::WriteAll(connection, answer_(request)).IgnoreError();
  shutdown(connection, SHUT_WR);
  while (read(connection, piece, sizeof piece) > 0) {
  }
}

}  // namespace muster::testing
