// The host's name, its loopback device and its ports.
#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "client/doctor/machine.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::client::doctor {
namespace {

constexpr int kPortStep = 100;  // tries 90 of 9,000: just as informative, and done in a millisecond

std::string TextOf(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
              sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof(text));
  }
  return text;
}

// Shared with a thread that may outlive the question: a name server can take half a minute.
struct Resolution {
  std::mutex mutex;
  std::condition_variable changed;
  // guards what follows
  bool done = false;
  std::vector<std::string> addresses;
  std::string trouble;
};

void Resolve(const std::string& name, Resolution& resolution) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; error == 0 && each != nullptr; each = each->ai_next) {
    std::string text = TextOf(each->ai_addr);
    if (!text.empty() && std::find(addresses.begin(), addresses.end(), text) == addresses.end())
      addresses.push_back(std::move(text));
  }
  if (error == 0) freeaddrinfo(found);
  std::lock_guard lock(resolution.mutex);
  resolution.addresses = std::move(addresses);
  if (error != 0) resolution.trouble = gai_strerror(error);
  resolution.done = true;
  resolution.changed.notify_all();
}

void ReadHostname(NetworkFacts* facts) {
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  facts->hostname = name;
  const auto resolution = std::make_shared<Resolution>();
  std::thread([resolution, name = facts->hostname] { Resolve(name, *resolution); }).detach();
  std::unique_lock lock(resolution->mutex);
  if (!resolution->changed.wait_for(lock, std::chrono::milliseconds(kAnswerLimitMs),
                                    [&] { return resolution->done; })) {
    facts->resolve_trouble = "no name server answers within 1 s";
    return;
  }
  facts->addresses = resolution->addresses;
  facts->resolve_trouble = resolution->trouble;
}

// 0, or the error.
int TryPort(uint16_t port) {
  const common::UniqueFd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.valid()) return errno;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ? 0
                                                                                            : errno;
}

}  // namespace

NetworkFacts ReadNetwork() {
  NetworkFacts facts;
  ReadHostname(&facts);
  if (const int error = TryPort(0); error != 0) facts.loopback_trouble = strerror(error);
  for (int port = kMasterPortFirst; port <= kMasterPortLast; port += kPortStep) {
    ++facts.ports_tried;
    facts.ports_free += TryPort(static_cast<uint16_t>(port)) == 0 ? 1 : 0;
  }
  common::PortSettings settings = common::ReadPortSettings();
  facts.ephemeral_first = settings.ephemeral.first;
  facts.ephemeral_last = settings.ephemeral.last;
  facts.reserved = std::move(settings.reserved);
  return facts;
}

}  // namespace muster::client::doctor
