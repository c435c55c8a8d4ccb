#include "tests/support/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "common/files/files.h"

namespace muster::testing {
namespace {

constexpr int kFirst = 20000;  // as in free_port.py
constexpr int kLast = 29399;

// Held until the process ends, if the name was not taken.
bool Claim(int port) {
  const int claim = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::string name = "muster-test-port-" + std::to_string(port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t size = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  if (bind(claim, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
  close(claim);
  return false;
}

bool IsFree(int port) {
  const common::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  return bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         listen(listener.get(), 1) == 0;
}

}  // namespace

int FreePort() {
  std::random_device random;
  for (int tries = 0; tries < 100'000; ++tries) {
    const int port = kFirst + static_cast<int>(random() % (kLast + 1 - kFirst));
    if (Claim(port) && IsFree(port)) return port;
  }
  abort();
}

}  // namespace muster::testing
