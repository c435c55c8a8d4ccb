// Rendezvous and collectives on plain values; see process_group.h.
#include "parallel/process_group.h"

#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/files.h"
#include "muster/errors.h"
#include "parallel/connections.h"
#include "parallel/shared_gloo.h"

namespace muster {
namespace {

using Group = c10d::ProcessGroup;

std::string place_of(const Topology& topology) {
  return "rank " + std::to_string(topology.rank) + " of " + std::to_string(topology.world_size);
}

std::string store_address(const Topology& topology) {
  return topology.master_addr + ":" + std::to_string(topology.master_port);
}

c10::intrusive_ptr<c10d::Store> open_store(const Topology& topology,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(topology.master_port);
  options.isServer = !topology.agent_store && topology.rank == 0;
  options.timeout = timeout;
  // The server waits for all ranks here: a missing one is reported now, with a count.
  if (topology.agent_store) {
    options.waitWorkers = false;
  } else {
    options.numWorkers = static_cast<size_t>(topology.world_size);
  }
  try {
    c10::intrusive_ptr<c10d::Store> store =
        c10::make_intrusive<c10d::TCPStore>(topology.master_addr, options);
    // An agent's store outlives attempts: their keys must not mix.
    return c10::make_intrusive<c10d::PrefixStore>(
        "muster/attempt_" + std::to_string(topology.restart_count), store);
  } catch (const c10::Error& error) {
    const std::string advice =
        options.isServer
            ? "rank 0 serves the store there: is the port taken, or did a rank not start?"
            : "rank 0 or the launcher serves the store there: did it start, is it reachable?";
    throw CommunicationError(
        place_of(topology) + " did not meet the others at MASTER_ADDR:" + "MASTER_PORT " +
        store_address(topology) + ": " + error.what_without_backtrace() + " (" + advice + ")");
  }
}

// The numeric address of the local end of a UDP "connection": what the route table chooses. No
// packet is sent.
std::string local_address_towards(const addrinfo& target) {
  const FileDescriptor fd(::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), target.ai_addr, target.ai_addrlen) != 0) return "";
  sockaddr_storage local{};
  socklen_t bytes = sizeof(local);
  char host[NI_MAXHOST];
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &bytes) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&local), bytes, host, sizeof(host), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "";
  }
  return host;
}

std::shared_ptr<::gloo::transport::Device> make_gloo_device(bool is_interface,
                                                            const std::string& name) {
  return is_interface ? c10d::ProcessGroupGloo::createDeviceForInterface(name)
                      : c10d::ProcessGroupGloo::createDeviceForHostname(name);
}

// Gloo writes to sockets in a way that raises SIGPIPE when the other rank is gone. The default
// action would end this process without a word; ignored, as in Python, the collective fails with an
// error.
void ignore_broken_pipes() {
  struct sigaction action {};
  ::sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

// A group that knows how to break its own connections.
class TrainerGroup : public Group {
 public:
  TrainerGroup(const c10::intrusive_ptr<c10d::Store>& store, const Topology& topology,
               c10::intrusive_ptr<SharedGloo> gloo)
      : Group(store, topology.rank, topology.world_size),
        topology(topology),
        gloo(std::move(gloo)) {
    setBackend(c10::kCPU, BackendType::GLOO, this->gloo);
    setDefaultBackend(BackendType::GLOO);
  }

  const Topology topology;
  const c10::intrusive_ptr<SharedGloo> gloo;
};

c10::intrusive_ptr<SharedGloo> make_gloo(const Topology& topology,
                                         const c10::intrusive_ptr<c10d::Store>& store,
                                         const ProcessGroupOptions& given) {
  const GlooAddresses addresses =
      gloo_addresses(topology.master_addr, topology.master_port, given.interfaces);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->timeout = given.timeout;
  std::string tried;
  try {
    for (const std::string& name : addresses.names) {
      tried = name;
      options->devices.push_back(make_gloo_device(addresses.is_interface, name));
    }
    options->threads =
        given.gloo_threads > 0 ? given.gloo_threads : static_cast<int>(options->devices.size() * 2);
    const std::vector<SocketIdentity> before = connected_sockets();
    auto gloo =
        c10::make_intrusive<SharedGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                        topology.rank, topology.world_size, options);
    gloo->set_connections(new_sockets(before, connected_sockets()));
    return gloo;
  } catch (const std::exception& error) {
    throw CommunicationError(place_of(topology) + " cannot connect to the other ranks through " +
                             (addresses.is_interface ? "interface " : "address ") + tried + ": " +
                             error.what() + " (name an interface in GLOO_SOCKET_IFNAME)");
  }
}

#ifdef MUSTER_WITH_NCCL
// A template, so that nothing is compiled where a release has no abort.
template <typename Backend>
void abort_backend(Backend& backend) {
  if constexpr (requires { backend.abort(); }) backend.abort();
}
#endif

at::Tensor bytes_tensor(const std::string& text, int64_t size) {
  at::Tensor tensor = at::zeros({size}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), text.data(), text.size());
  return tensor;
}

std::string text_of(const at::Tensor& tensor, int64_t size) {
  return std::string(static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(size));
}

std::vector<at::Tensor> all_gather(Group& group, at::Tensor tensor) {
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int i = 0; i < group.getSize(); ++i) outputs[0].push_back(at::empty_like(tensor));
  std::vector<at::Tensor> inputs = {std::move(tensor)};
  group.getBackend(c10::kCPU)->allgather(outputs, inputs)->wait();
  return outputs[0];
}

}  // namespace

GlooAddresses gloo_addresses(const std::string& master_addr, int master_port,
                             const std::vector<std::string>& interfaces) {
  GlooAddresses addresses;
  if (!interfaces.empty()) return {.is_interface = true, .names = interfaces};
  if (const char* names = std::getenv("GLOO_SOCKET_IFNAME"); names != nullptr && *names != '\0') {
    addresses.is_interface = true;
    std::istringstream stream(names);
    for (std::string name; std::getline(stream, name, ',');) {
      if (!name.empty()) addresses.names.push_back(name);
    }
    return addresses;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(master_addr.c_str(), std::to_string(master_port).c_str(), &hints, &found);
  if (error != 0) {
    throw CommunicationError("MASTER_ADDR='" + master_addr +
                             "' has no address: " + ::gai_strerror(error) + " (use an IP address)");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  // IPv4 first: all ranks must choose the same family when a name has both.
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
      if (target->ai_family != family) continue;
      const std::string local = local_address_towards(*target);
      if (!local.empty()) {
        addresses.names = {local};
        return addresses;
      }
    }
  }
  throw CommunicationError("there is no route to MASTER_ADDR='" + master_addr +
                           "': name the interface to use in GLOO_SOCKET_IFNAME");
}

ProcessGroupPtr make_process_group(const Topology& topology, at::Device device,
                                   const ProcessGroupOptions& options) {
  if (topology.world_size == 1) return {};
  ignore_broken_pipes();
  const auto store = open_store(topology, options.init_timeout);
  auto group =
      c10::make_intrusive<TrainerGroup>(store, topology, make_gloo(topology, store, options));
  if (topology.world_size <= options.shared_memory_ranks_max) group->gloo->share_memory();
  if (device.is_cuda()) {
#ifdef MUSTER_WITH_NCCL
    add_nccl_backend(group, store, options);
#else
    // Gloo moves CUDA tensors too, by way of the host.
    group->setBackend(c10::kCUDA, Group::BackendType::GLOO, group->getBackend(c10::kCPU));
#endif
  }
  return group;
}

ProcessGroupPtr make_side_group(const ProcessGroupPtr& group, const std::string& name,
                                const ProcessGroupOptions& options) {
  if (!group) return {};
  const auto* own = dynamic_cast<const TrainerGroup*>(group.get());
  if (own == nullptr) {
    throw std::invalid_argument("make_side_group: the group was not made by make_process_group");
  }
  const auto store = c10::make_intrusive<c10d::PrefixStore>("side/" + name, group->getStore());
  ProcessGroupPtr side = c10::make_intrusive<TrainerGroup>(
      store, own->topology, make_gloo(own->topology, store, options));
  // A rank that is done here may leave at once; the others must be connected by then.
  barrier(side);
  return side;
}

void abort_process_group(const ProcessGroupPtr& group) noexcept {
  if (!group) return;
  if (const auto* own = dynamic_cast<const TrainerGroup*>(group.get())) {
    break_connections(own->gloo->connections());
  }
#ifdef MUSTER_WITH_NCCL
  try {
    abort_backend(*group->getBackend(Group::BackendType::NCCL));
  } catch (const std::exception&) {  // no such backend, or it is gone already
  }
#endif
}

std::vector<std::string> all_gather_strings(const ProcessGroupPtr& group, const std::string& text) {
  if (!group) return {text};
  const auto own_size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes;
  int64_t longest = 0;
  for (const at::Tensor& size : all_gather(*group, at::full({1}, own_size, at::kLong))) {
    sizes.push_back(size.item<int64_t>());
    longest = std::max(longest, sizes.back());
  }
  std::vector<std::string> texts(sizes.size());
  if (longest == 0) return texts;
  const std::vector<at::Tensor> gathered = all_gather(*group, bytes_tensor(text, longest));
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = text_of(gathered[i], sizes[i]);
  return texts;
}

std::string broadcast_string(const ProcessGroupPtr& group, const std::string& text) {
  if (!group) return text;
  const auto backend = group->getBackend(c10::kCPU);
  std::vector<at::Tensor> size = {at::full({1}, static_cast<int64_t>(text.size()), at::kLong)};
  backend->broadcast(size)->wait();
  const int64_t bytes = size[0].item<int64_t>();
  if (bytes == 0) return "";
  std::vector<at::Tensor> content = {group->getRank() == 0 ? bytes_tensor(text, bytes)
                                                           : at::zeros({bytes}, at::kByte)};
  backend->broadcast(content)->wait();
  return text_of(content[0], bytes);
}

void barrier(const ProcessGroupPtr& group) {
  if (group) group->getBackend(c10::kCPU)->barrier()->wait();
}

void agree_on_success(const ProcessGroupPtr& group, const std::string& error) {
  const std::vector<std::string> errors = all_gather_strings(group, error);
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) {
      throw CheckpointError("rank " + std::to_string(rank) + ": " + errors[rank]);
    }
  }
}

}  // namespace muster
