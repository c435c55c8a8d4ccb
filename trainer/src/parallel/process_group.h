// The process group of the job: torch's TCPStore, Gloo for CPU tensors, and the device driver's
// backend (device/device_driver.h) for the device's tensors. Training thread only, except that a
// side group belongs to the one thread that uses it.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "muster/base/topology.h"

namespace muster {

struct ProcessGroupOptions {
  std::chrono::milliseconds timeout;       // per collective
  std::chrono::milliseconds init_timeout;  // for the rendezvous
  // Network interfaces for Gloo; several share the traffic. Empty: those of GLOO_SOCKET_IFNAME,
  // else the one on the route to MASTER_ADDR.
  std::vector<std::string> interfaces = {};
  int gloo_threads = 0;  // threads that run collectives; 0: two per interface
  // Up to this many ranks, if all are on one machine, reduce and broadcast CPU tensors of up to 4
  // MiB through shared memory; such calls are synchronous. With two ranks the results are
  // bit-identical to Gloo's; with more, sums would be in rank order, unlike Gloo's. The ranks of
  // one machine, up to 64, also use shared memory to compare their calls before data moves. 0: no
  // shared memory at all.
  int shared_memory_ranks_max = 2;
};

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

// Performs the rendezvous with the other ranks; `device` is the one that this rank computes on.
// Null for a world of one. Collective. Ignores SIGPIPE if it has its default action. Throws
// CommunicationError naming the address, the interface and what to change, and DeviceError for
// errors of the device's own backend.
ProcessGroupPtr make_process_group(const Topology& topology, at::Device device,
                                   const ProcessGroupOptions& options);

// A second group of the same ranks for CPU tensors, with its own connections and threads, so that
// background work does not interfere with the order of the training thread's collectives. `name` is
// unique among the side groups of a run and the same on all ranks. Null for a null group.
// Collective on the training thread; the result may then be used by another thread. Throws
// CommunicationError, and std::invalid_argument for a group that make_process_group did not create.
ProcessGroupPtr make_side_group(const ProcessGroupPtr& group, const std::string& name,
                                const ProcessGroupOptions& options);

// A subgroup, in the order of `ranks` (each rank of `group` at most once), with the backends of
// `group` and its own connections. Every rank of `group` passes the list that contains it: {0, 1}
// on ranks 0 and 1 and {2, 3} on ranks 2 and 3 create two groups. Null for a list of one rank or a
// null group. `name` is unique among the groups created from `group` and the same on all ranks.
// Used by the thread that uses `group`. Collective over `group`. Throws std::invalid_argument on
// all ranks if the lists are inconsistent, CommunicationError if ranks cannot connect.
ProcessGroupPtr make_sub_group(const ProcessGroupPtr& group, const std::string& name,
                               const std::vector<int>& ranks, const ProcessGroupOptions& options);

// Shuts down the connections of the group and of all groups created from it, for a rank that exits
// by an exception: collectives in flight and later ones fail at once, here and on the other ranks,
// and no destructor waits for them. Any thread; does not block or throw. The groups must still be
// destroyed in the usual order: models first, then side groups and subgroups, then the group.
void abort_process_group(const ProcessGroupPtr& group) noexcept;

// The addresses or interfaces that Gloo listens on: `interfaces` if not empty, else
// GLOO_SOCKET_IFNAME if set, else the local address on the route to `master_addr` (a loopback
// address on one machine). Never guessed from the host name. `is_interface` tells which of the two
// the strings are.
struct GlooAddresses {
  bool is_interface = false;
  std::vector<std::string> names;
};
GlooAddresses gloo_addresses(const std::string& master_addr, int master_port,
                             const std::vector<std::string>& interfaces = {});

// ---- Collectives on plain values. `group` may be null: a world of one. ----

// Every rank's text, in rank order. Any length, including 0.
std::vector<std::string> all_gather_strings(const ProcessGroupPtr& group, const std::string& text);

// Rank 0's text on every rank.
std::string broadcast_string(const ProcessGroupPtr& group, const std::string& text);

void barrier(const ProcessGroupPtr& group);

// A barrier at which ranks report errors: if any rank has one, throws CheckpointError with the
// first one on all ranks, so that no rank continues alone.
void agree_on_success(const ProcessGroupPtr& group, const std::string& error);

}  // namespace muster
