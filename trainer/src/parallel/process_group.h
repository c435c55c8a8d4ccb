// The process group of the job: torch's TCPStore, Gloo for CPU tensors, and what the device's
// driver brings (device/device_driver.h) for its tensors. Called from the training thread only; a
// side group belongs to the one thread that uses it.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "muster/base/topology.h"

namespace muster {

struct ProcessGroupOptions {
  std::chrono::milliseconds timeout;       // of one collective
  std::chrono::milliseconds init_timeout;  // until all ranks have met
  // Network interfaces for Gloo. Empty: those of GLOO_SOCKET_IFNAME, else the one that the route to
  // MASTER_ADDR uses. Several share the work.
  std::vector<std::string> interfaces = {};
  int gloo_threads = 0;  // run collectives; 0: two per interface
  // Up to so many ranks, when all are on one machine, reduce and broadcast CPU tensors of up to 4
  // MiB through shared memory, and such a call returns when it is done. Two ranks get the bits that
  // Gloo gives; more would get sums in another order than Gloo's (the order of the ranks). Through
  // shared memory the ranks of one machine, up to 64, also compare what they call before anything
  // moves. 0: no shared memory at all.
  int shared_memory_ranks_max = 2;
};

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

// Meets the other ranks; `device` is the one that this rank computes on. Null for a world of one.
// Collective. Sets SIGPIPE to be ignored where it has its default action. Throws CommunicationError
// that names the address, the interface and what to change, and DeviceError for the device's own
// backend.
ProcessGroupPtr make_process_group(const Topology& topology, at::Device device,
                                   const ProcessGroupOptions& options);

// A second group of the same ranks for CPU tensors, with connections and threads of its own, so
// that work in the background never meets the order of the training thread's collectives. `name`
// is unique among the side groups of a run and the same on all ranks. Null for a null group.
// Collective on the training thread; the result may then go to another thread. Throws
// CommunicationError, and std::invalid_argument for a group that make_process_group did not make.
ProcessGroupPtr make_side_group(const ProcessGroupPtr& group, const std::string& name,
                                const ProcessGroupOptions& options);

// A group of some of the ranks, which has the order of `ranks` (each rank of `group` at most once),
// the backends of `group` and connections of its own. Every rank of `group` calls it with the list
// that holds it: {0, 1} on ranks 0 and 1 and {2, 3} on ranks 2 and 3 make two groups. Null for a
// list of one rank or a null group. `name` is unique among the groups made from `group` and the
// same on all ranks. Used by the thread that uses `group`. Collective over `group`. Throws
// std::invalid_argument on all ranks for lists that do not fit together, CommunicationError when
// ranks cannot connect.
ProcessGroupPtr make_sub_group(const ProcessGroupPtr& group, const std::string& name,
                               const std::vector<int>& ranks, const ProcessGroupOptions& options);

// Breaks the connections of the group and of all groups made from it, for a rank that leaves by an
// exception: collectives under way and later ones fail at once, here and on the other ranks, and no
// destructor waits for them. Any thread; does not wait and does not throw. The groups stay to be
// destroyed in the usual order: models first, then side and sub groups, then the group.
void abort_process_group(const ProcessGroupPtr& group) noexcept;

// The addresses or interfaces Gloo listens on: `interfaces` when there are some, else those of
// GLOO_SOCKET_IFNAME when set, else the local address that the route to `master_addr` uses (a
// loopback address on one machine). Never a guess from the host's name. `is_interface` tells which
// of the two the strings are.
struct GlooAddresses {
  bool is_interface = false;
  std::vector<std::string> names;
};
GlooAddresses gloo_addresses(const std::string& master_addr, int master_port,
                             const std::vector<std::string>& interfaces = {});

// ---- Collectives on plain values. `group` may be null: a world of one. ----

// Every rank's text, in rank order. Any length, also none.
std::vector<std::string> all_gather_strings(const ProcessGroupPtr& group, const std::string& text);

// Rank 0's text on every rank.
std::string broadcast_string(const ProcessGroupPtr& group, const std::string& text);

void barrier(const ProcessGroupPtr& group);

// Waits until all ranks are here; when any of them brings an error, throws CheckpointError with the
// first one on all of them, so that no rank goes on alone.
void agree_on_success(const ProcessGroupPtr& group, const std::string& error);

}  // namespace muster
