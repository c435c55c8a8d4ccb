// See job_store.h.
#include "parallel/job_store.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "muster/base/errors.h"

namespace muster {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

bool serves(const Topology& topology) { return !topology.agent_store && topology.rank == 0; }

std::string address_of(const Topology& topology) {
  return topology.master_addr + ":" + std::to_string(topology.master_port);
}

[[noreturn]] void throw_not_joined(const Topology& topology, const std::string& reason) {
  const std::string advice =
      serves(topology)
          ? "rank 0 serves the store there: is the port taken, or did a rank not start?"
          : "rank 0 or the launcher serves the store there: did it start, is it reachable?";
  throw CommunicationError(place_of(topology) +
                           " could not join the others at MASTER_ADDR:MASTER_PORT " +
                           address_of(topology) + ": " + reason + " (" + advice + ")");
}

// A socket for the store at MASTER_ADDR alone: torch's own listens at every address of the machine, and
// the store does not authenticate its clients. Nothing for a name, which may mean another address here
// than it does for the other ranks, and where the address is not this machine's (behind a NAT).
std::optional<int> bind_at(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      ::bind(fd, found->ai_addr, found->ai_addrlen) == 0)
    return fd;
  if (fd >= 0) ::close(fd);
  return {};
}

StorePtr connect(const Topology& topology, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(topology.master_port);
  options.isServer = serves(topology);
  options.timeout = timeout;
  if (options.isServer)
    options.masterListenFd =
        bind_at(topology.master_addr, topology.master_port);  // the store's now
  // The server waits for all ranks here, so a missing one is reported now, with a count.
  if (topology.agent_store) {
    options.waitWorkers = false;
  } else {
    options.numWorkers = static_cast<size_t>(topology.world_size);
  }
  try {
    return c10::make_intrusive<c10d::TCPStore>(topology.master_addr, options);
  } catch (const c10::Error& error) {
    throw_not_joined(topology, error.what_without_backtrace());
  }
}

std::string rank_key(int rank) { return "here/" + std::to_string(rank); }

// "rank 1, rank 3": those that have not come; "" if the store cannot tell.
std::string missing_ranks(c10d::Store& store, int world_size) {
  std::string missing;
  try {
    for (int rank = 0; rank < world_size; ++rank) {
      if (store.check({rank_key(rank)})) continue;
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
    }
  } catch (const c10::Error&) {
    return "";
  }
  return missing;
}

// The last one to come tells all.
void meet_at(c10d::Store& store, const Topology& topology, int64_t number) {
  try {
    store.set(rank_key(topology.rank), std::vector<uint8_t>{1});
    if (store.add("count", 1) == topology.world_size) store.set("all", std::vector<uint8_t>{1});
    store.wait({"all"});
  } catch (const c10::Error& error) {
    const std::string missing = missing_ranks(store, topology.world_size);
    if (missing.empty()) throw_not_joined(topology, error.what_without_backtrace());
    throw_not_joined(topology, missing + " did not make Accelerator number " +
                                   std::to_string(number + 1) + " of the process in time");
  }
}

struct Connection {
  StorePtr store;
  int64_t groups = 0;  // made over it so far
};

}  // namespace

std::string place_of(const Topology& topology) {
  return "rank " + std::to_string(topology.rank) + " of " + std::to_string(topology.world_size);
}

StorePtr next_job_store(const Topology& topology, std::chrono::milliseconds timeout) {
  static std::mutex mutex;
  // By prefix and address. Never destroyed: the process's end closes the connections, and a forked
  // child that ends must not.
  static auto& connections = *new std::map<std::string, Connection>;
  // An agent's store outlives attempts, whose keys must not mix.
  const std::string prefix = "muster/attempt_" + std::to_string(topology.restart_count);
  StorePtr store;
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex);
    Connection& connection = connections[prefix + " " + address_of(topology)];
    if (!connection.store) connection.store = connect(topology, timeout);
    connection.store->setTimeout(timeout);
    number = connection.groups++;
    store = connection.store;
  }
  auto keys = c10::make_intrusive<c10d::PrefixStore>(
      prefix + "/accelerator_" + std::to_string(number), std::move(store));
  meet_at(*keys, topology, number);
  return keys;
}

}  // namespace muster
