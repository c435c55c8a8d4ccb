// Rendezvous and collectives on plain values; see process_group.h.
#include "parallel/process_group.h"

#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/files.h"
#include "device/device_driver.h"
#include "muster/base/errors.h"
#include "parallel/connections.h"
#include "parallel/job_store.h"
#include "parallel/meeting_store.h"
#include "parallel/shared_gloo.h"

namespace muster {
namespace {

using Group = c10d::ProcessGroup;

// The numeric local address of a UDP "connection", as chosen by the routing table. No packet is
// sent.
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

// Gloo's socket writes raise SIGPIPE if the other rank is gone. The default action would kill this
// process silently; if it is ignored, as in Python, the collective fails with an error.
void ignore_broken_pipes() {
  struct sigaction action {};
  ::sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

// A template, so that it compiles for releases without abort.
template <typename Backend>
void abort_backend(Backend& backend) {
  if constexpr (requires { backend.abort(); }) backend.abort();
}

// A group that can shut down its own connections and those of the groups created from it.
class TrainerGroup : public Group {
 public:
  TrainerGroup(const c10::intrusive_ptr<c10d::Store>& store, const Topology& topology,
               at::Device device, c10::intrusive_ptr<SharedGloo> gloo)
      : Group(store, topology.rank, topology.world_size),
        topology(topology),
        device(device),
        gloo(std::move(gloo)) {
    setBackend(c10::kCPU, BackendType::GLOO, this->gloo);
    setDefaultBackend(BackendType::GLOO);
  }

  // From now on, tensors of the device's type use its own backend.
  void set_device_backend(const c10::intrusive_ptr<c10d::Backend>& backend,
                          std::vector<SocketIdentity> connections) {
    // The group holds one backend per kind, and Gloo's slot is taken.
    const bool is_nccl = backend->getBackendName() == "nccl";
    setBackend(device.type(), is_nccl ? BackendType::NCCL : BackendType::CUSTOM, backend);
    device_backend_ = backend;
    device_connections_ = std::move(connections);
  }

  // Any thread.
  void abort() const {
    break_connections(gloo->connections());
    break_connections(device_connections_);
    if (device_backend_) abort_backend(*device_backend_);
  }

  void add_descendant(const c10::intrusive_ptr<TrainerGroup>& group) {
    const std::lock_guard lock(mutex_);
    std::erase_if(descendants_, [](const auto& known) { return known.expired(); });
    descendants_.emplace_back(group);
  }
  // The descendants that still exist.
  std::vector<c10::intrusive_ptr<TrainerGroup>> descendants() const {
    const std::lock_guard lock(mutex_);
    std::vector<c10::intrusive_ptr<TrainerGroup>> living;
    for (const auto& known : descendants_) {
      if (auto group = known.lock()) living.push_back(std::move(group));
    }
    return living;
  }

  const Topology topology;  // of this group's ranks; a subgroup numbers them from 0
  const at::Device device;
  const c10::intrusive_ptr<SharedGloo> gloo;

 private:
  c10::intrusive_ptr<c10d::Backend> device_backend_;  // null: uses Gloo
  std::vector<SocketIdentity> device_connections_;

  mutable std::mutex mutex_;  // guards the members below
  std::vector<c10::weak_intrusive_ptr<TrainerGroup>> descendants_;
};

// The group as created by make_process_group; `asked` is the calling function, for the error.
TrainerGroup& trainer_group(const ProcessGroupPtr& group, const std::string& asked) {
  auto* own = dynamic_cast<TrainerGroup*>(group.get());
  if (own == nullptr) {
    throw std::invalid_argument(asked + ": the group was not created by make_process_group");
  }
  return *own;
}

// An address on the network of the other ranks' nodes: MASTER_ADDR, unless that is a store on the rank's own node.
std::string network_of(const Topology& topology) {
  const char* node = std::getenv("MUSTER_MASTER_ADDR");
  return node != nullptr && *node != '\0' ? node : topology.master_addr;
}

c10::intrusive_ptr<SharedGloo> make_gloo(const Topology& topology,
                                         const c10::intrusive_ptr<c10d::Store>& store,
                                         const ProcessGroupOptions& given) {
  const GlooAddresses addresses =
      gloo_addresses(network_of(topology), topology.master_port, given.interfaces);
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
    const auto meeting = c10::make_intrusive<MeetingStore>("gloo", store);
    auto gloo =
        c10::make_intrusive<SharedGloo>(meeting, topology.rank, topology.world_size, options);
    gloo->set_connections(meeting->connections());
    return gloo;
  } catch (const std::exception& error) {
    throw CommunicationError(place_of(topology) + " cannot connect to the other ranks through " +
                             (addresses.is_interface ? "interface " : "address ") + tried + ": " +
                             error.what() + " (name an interface in GLOO_SOCKET_IFNAME)");
  }
}

void add_device_backend(TrainerGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                        const ProcessGroupOptions& options) {
  const DeviceDriver& driver = device_driver(group.device);
  if (!driver.has_backend()) {
    if (group.device.is_cpu()) return;
    group.setBackend(group.device.type(), Group::BackendType::GLOO, group.gloo);
    return;
  }
  const GlooAddresses network =
      gloo_addresses(network_of(group.topology), group.topology.master_port, options.interfaces);
  const auto meeting = c10::make_intrusive<MeetingStore>(driver.name(), store);
  const auto backend = driver.make_backend({.store = meeting,
                                            .rank = group.topology.rank,
                                            .world_size = group.topology.world_size,
                                            .device = group.device,
                                            .timeout = options.timeout,
                                            .network = network.names,
                                            .network_is_interfaces = network.is_interface});
  group.set_device_backend(backend, meeting->connections());
}

c10::intrusive_ptr<TrainerGroup> make_trainer_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const Topology& topology, at::Device device,
                                                    const ProcessGroupOptions& options) {
  auto group = c10::make_intrusive<TrainerGroup>(store, topology, device,
                                                 make_gloo(topology, store, options));
  if (options.shared_memory_ranks_max > 0) {
    group->gloo->share_memory(topology.world_size <= options.shared_memory_ranks_max);
  }
  add_device_backend(*group, store, options);
  return group;
}

std::string list_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "{" + text + "}";
}

std::vector<int> ranks_of(const std::string& list) {
  std::vector<int> ranks;
  std::istringstream stream(list.substr(list.rfind('{') + 1));
  for (int rank = 0; stream >> rank; stream.ignore(1)) ranks.push_back(rank);
  return ranks;
}

// What is wrong with the list of `rank`; empty if nothing.
std::string fault_of_list(const std::vector<std::string>& lists, size_t rank) {
  std::vector<bool> listed(lists.size(), false);
  for (const int member : ranks_of(lists[rank])) {
    const std::string name = "rank " + std::to_string(member);
    if (member < 0 || member >= static_cast<int>(lists.size())) return name + " does not exist";
    const auto index = static_cast<size_t>(member);
    if (listed[index]) return name + " is listed twice";
    if (lists[index] != lists[rank]) return name + " requests " + lists[index];
    listed[index] = true;
  }
  return listed[rank] ? "" : "it is not in that list";
}

// All ranks check all lists, so that all throw the same error or none does.
void check_sub_groups(const ProcessGroupPtr& group, const std::string& name,
                      const std::vector<int>& ranks) {
  const std::vector<std::string> lists = all_gather_strings(group, name + " " + list_text(ranks));
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    const std::string fault = fault_of_list(lists, rank);
    if (fault.empty()) continue;
    throw std::invalid_argument(
        "make_sub_group: rank " + std::to_string(rank) + " requests " + lists[rank] + ", but " +
        fault +
        ": every rank must pass the list that contains it, the same on all ranks of a list");
  }
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
  // IPv4 first: all ranks must choose the same family if a name has both.
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
  auto group =
      make_trainer_group(next_job_store(topology, options.init_timeout), topology, device, options);
  std::vector<int> ranks(static_cast<size_t>(topology.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  group->gloo->set_name("default", ranks);
  return group;
}

ProcessGroupPtr make_side_group(const ProcessGroupPtr& group, const std::string& name,
                                const ProcessGroupOptions& options) {
  if (!group) return {};
  TrainerGroup& own = trainer_group(group, "make_side_group");
  const auto store = c10::make_intrusive<c10d::PrefixStore>("side/" + name, group->getStore());
  const auto side = c10::make_intrusive<TrainerGroup>(store, own.topology, at::kCPU,
                                                      make_gloo(own.topology, store, options));
  if (options.shared_memory_ranks_max > 0) side->gloo->share_memory(/*reduces=*/false);
  side->gloo->set_name(name, own.gloo->ranks());
  own.add_descendant(side);
  // A rank that is done here may exit at once; the others must be connected by then.
  barrier(side);
  return side;
}

ProcessGroupPtr make_sub_group(const ProcessGroupPtr& group, const std::string& name,
                               const std::vector<int>& ranks, const ProcessGroupOptions& options) {
  if (!group) return {};
  TrainerGroup& own = trainer_group(group, "make_sub_group");
  check_sub_groups(group, name, ranks);
  c10::intrusive_ptr<TrainerGroup> sub;
  if (ranks.size() > 1) {
    Topology topology = own.topology;
    topology.rank =
        static_cast<int>(std::find(ranks.begin(), ranks.end(), own.topology.rank) - ranks.begin());
    topology.world_size = static_cast<int>(ranks.size());
    const auto store = c10::make_intrusive<c10d::PrefixStore>(
        "sub/" + name + "/" + std::to_string(ranks[0]), group->getStore());
    sub = make_trainer_group(store, topology, own.device, options);
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(own.gloo->ranks()[static_cast<size_t>(rank)]);
    sub->gloo->set_name(name, members);
    own.add_descendant(sub);
  }
  barrier(group);  // as in make_side_group
  return sub;
}

void abort_process_group(const ProcessGroupPtr& group) noexcept {
  const auto* own = dynamic_cast<const TrainerGroup*>(group.get());
  if (own == nullptr) return;
  for (const auto& descendant : own->descendants()) abort_process_group(descendant);
  try {
    own->abort();
  } catch (const std::exception&) {  // the backend is already gone
  }
}

}  // namespace muster
