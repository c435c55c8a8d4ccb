#include "tests/stores/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "common/kernel/pipe_signal.h"
#include "tests/support/scripted_server.h"

namespace muster::testing {
namespace {

common::UniqueFd Dial(int port) {
  common::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.Reset();
  return fd;
}

void ResetAtClose(int fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

FaultProxy::FaultProxy(int server_port)
    : server_port_(server_port), listener_(ListenOnLoopback(&port_)) {
  thread_ = std::thread([this] {
    for (;;) {
      common::UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) return;
      const std::lock_guard lock(mutex_);
      Fault fault;
      if (!planned_.empty()) {
        fault = planned_.front();
        planned_.pop_front();
      }
      Link& link = links_.emplace_back();
      link.client = std::move(client);
      link.thread = std::thread([this, &link, fault] { Run(link, fault); });
    }
  });
}

FaultProxy::~FaultProxy() {
  stops_ = true;
  shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
  Plan({});
  for (Link& link : links_) link.thread.join();
}

void FaultProxy::Plan(std::vector<Fault> faults) {
  const std::lock_guard lock(mutex_);
  planned_.assign(faults.begin(), faults.end());
  for (Link& link : links_) shutdown(link.client.get(), SHUT_RDWR);
}

size_t FaultProxy::Left() {
  const std::lock_guard lock(mutex_);
  return planned_.size();
}

size_t FaultProxy::Connections() {
  const std::lock_guard lock(mutex_);
  return links_.size();
}

void FaultProxy::Run(Link& link, const Fault& fault) {
  const common::PipeSignalHeld held;
  if (fault.answer.empty()) {
    link.server = Dial(server_port_);
    if (link.server.valid()) Pump(link, fault);
  } else {
    char bytes[65536];
    if (read(link.client.get(), bytes, sizeof bytes) > 0)
      common::WriteAll(link.client.get(), fault.answer).IgnoreError();
    shutdown(link.client.get(), SHUT_WR);
    while (read(link.client.get(), bytes, sizeof bytes) > 0) {
    }
  }
  const std::lock_guard lock(mutex_);
  link.client.Reset();
  link.server.Reset();
}

void FaultProxy::Pump(Link& link, const Fault& fault) {
  uint64_t asked = 0;
  uint64_t passed = 0;
  std::string head;
  char bytes[65536];
  pollfd ready[2] = {{link.client.get(), POLLIN, 0}, {link.server.get(), POLLIN, 0}};
  while (!stops_ && poll(ready, 2, 100) >= 0) {
    if ((ready[0].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t count = read(link.client.get(), bytes, sizeof bytes);
      if (count <= 0) return;
      const auto pass = static_cast<size_t>(
          std::min<uint64_t>(static_cast<uint64_t>(count), fault.request_bytes - asked));
      asked += pass;
      if (!common::WriteAll(link.server.get(), {bytes, pass}).ok() || asked == fault.request_bytes)
        return;
    }
    if ((ready[1].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t count = read(link.server.get(), bytes, sizeof bytes);
      if (count <= 0 ||
          !PassOn(link, fault, std::string(bytes, static_cast<size_t>(count)), &passed, &head))
        return;
    }
  }
}

// False: it is over with this connection.
bool FaultProxy::PassOn(Link& link, const Fault& fault, const std::string& bytes, uint64_t* passed,
                        std::string* head) {
  size_t body = 0;
  if (fault.body_bytes != UINT64_MAX && head->find("\r\n\r\n") == std::string::npos) {
    const size_t before = head->size();
    *head += bytes;
    const size_t end = head->find("\r\n\r\n");
    body = end == std::string::npos ? bytes.size() : end + 4 - before;
    if (head->starts_with("HTTP/1.1 100")) {  // the answer follows
      head->erase(0, end + 4);
    }
  }
  const uint64_t room = fault.body_bytes - *passed;
  const size_t pass = static_cast<size_t>(
      std::min<uint64_t>(bytes.size(), body + std::min<uint64_t>(room, bytes.size())));
  *passed += pass - std::min(pass, body);
  const std::string_view passes = std::string_view(bytes).substr(0, fault.with_head ? pass : 0);
  if (!common::WriteAll(link.client.get(), passes).ok()) return false;
  if (fault.with_head && *passed < fault.body_bytes) return true;
  if (fault.then == Fault::Then::kReset) ResetAtClose(link.client.get());
  // Until the client gives up.
  char rest[4096];
  while (fault.then == Fault::Then::kStall && !stops_ &&
         read(link.client.get(), rest, sizeof rest) > 0) {
  }
  return false;
}

}  // namespace muster::testing
