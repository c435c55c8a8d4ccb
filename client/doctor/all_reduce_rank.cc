// The rank of doctor's tiny job. Without LibTorch, over one socket, it does the basic steps of
// every collective: meet at MASTER_ADDR:MASTER_PORT, move data, agree on the result.
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "client/doctor/rehearsal.h"
#include "client/session/spec_environment.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;
using common::UniqueFd;
using std::chrono::steady_clock;

constexpr size_t kFloats = 16 * 1024;
constexpr auto kRendezvousLimit = std::chrono::seconds(5);
constexpr int kTransferLimitS = 5;

absl::Status Unmet(std::string_view what, const std::string& address) {
  return absl::UnavailableError(StrCat(what, " ", address, ": ", strerror(errno)));
}

struct Address {
  sockaddr_storage value{};
  socklen_t size = 0;
  int family = AF_INET;
  std::string text;
};

absl::StatusOr<Address> MasterAddress() {
  Address address;
  const std::string host = Variable("MASTER_ADDR");
  const std::string port = Variable("MASTER_PORT");
  address.text = StrCat(host, ":", port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        StrCat("cannot resolve ", address.text, ": ", gai_strerror(error)));
  }
  std::memcpy(&address.value, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  address.family = found->ai_family;
  freeaddrinfo(found);
  return address;
}

absl::StatusOr<UniqueFd> Accept(const Address& address) {
  UniqueFd listener(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  // The worker holds the port for us; with this option our listener can take it over.
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) != 0 ||
      listen(listener.get(), 1) != 0) {
    return Unmet("cannot listen at", address.text);
  }
  pollfd waited{listener.get(), POLLIN, 0};
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kRendezvousLimit);
  if (poll(&waited, 1, static_cast<int>(limit.count())) <= 0)
    return absl::DeadlineExceededError(StrCat("rank 1 did not come to ", address.text));
  UniqueFd peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer.valid()) return Unmet("cannot accept at", address.text);
  return peer;
}

absl::StatusOr<UniqueFd> Connect(const Address& address) {
  const auto deadline = steady_clock::now() + kRendezvousLimit;
  while (true) {
    UniqueFd peer(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(peer.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) == 0)
      return peer;
    // Rank 0 may not listen yet.
    if (errno != ECONNREFUSED || steady_clock::now() > deadline)
      return Unmet("cannot reach rank 0 at", address.text);
    usleep(1'000);
  }
}

absl::Status Receive(int fd, std::vector<float>* values) {
  auto* bytes = reinterpret_cast<char*>(values->data());
  size_t left = values->size() * sizeof(float);
  while (left > 0) {
    const ssize_t count = recv(fd, bytes, left, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::UnavailableError("the other rank is gone");
    bytes += count;
    left -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status Send(int fd, const std::vector<float>& values) {
  return common::WriteAll(
      fd, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

std::vector<float> ValuesOf(size_t rank) {
  std::vector<float> values(kFloats);
  for (size_t i = 0; i < kFloats; ++i) values[i] = static_cast<float>((rank + 1) * (i % 1000));
  return values;
}

}  // namespace

absl::StatusOr<int> RunAllReduceRank() {
  const bool is_first = Variable("RANK") == "0";
  ASSIGN_OR_RETURN(const Address master, MasterAddress());
  ASSIGN_OR_RETURN(const UniqueFd peer, is_first ? Accept(master) : Connect(master));
  const timeval limit{kTransferLimitS, 0};
  setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  std::vector<float> sum = ValuesOf(is_first ? 0 : 1);
  if (is_first) {
    std::vector<float> theirs(kFloats);
    RETURN_IF_ERROR(Receive(peer.get(), &theirs));
    for (size_t i = 0; i < kFloats; ++i) sum[i] += theirs[i];
    RETURN_IF_ERROR(Send(peer.get(), sum));
  } else {
    RETURN_IF_ERROR(Send(peer.get(), sum));
    RETURN_IF_ERROR(Receive(peer.get(), &sum));
  }
  for (size_t i = 0; i < kFloats; ++i) {
    if (sum[i] != static_cast<float>(3 * (i % 1000)))
      return absl::DataLossError(StrCat("element ", i, " of the sum is ", sum[i]));
  }
  return 0;
}

}  // namespace muster::client::doctor
