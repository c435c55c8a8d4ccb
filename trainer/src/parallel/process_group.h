// The process group of the job: torch's TCPStore, Gloo for CPU tensors, NCCL for CUDA tensors when
// LibTorch and this build have it. Called from the training thread only; a side group belongs to
// the one thread that uses it.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "muster/topology.h"

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
  // Gloo gives; more would get sums in another order than Gloo's (the order of the ranks). 0:
  // never.
  int shared_memory_ranks_max = 2;
};

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

// Meets the other ranks. Null for a world of one. Collective. Sets SIGPIPE to be ignored where it
// has its default action. Throws CommunicationError that names the address, the interface and what
// to change.
ProcessGroupPtr make_process_group(const Topology& topology, at::Device device,
                                   const ProcessGroupOptions& options);

// A second group of the same ranks for CPU tensors, with connections and threads of its own, so
// that work in the background never meets the order of the training thread's collectives. `name`
// is unique among the side groups of a run and the same on all ranks. Null for a null group.
// Collective on the training thread; the result may then go to another thread. Throws
// CommunicationError, and std::invalid_argument for a group that make_process_group did not make.
ProcessGroupPtr make_side_group(const ProcessGroupPtr& group, const std::string& name,
                                const ProcessGroupOptions& options);

// Breaks the group's connections, for a rank that leaves by an exception: collectives under way and
// later ones fail at once, here and on the other ranks, and no destructor waits for them. Any
// thread; does not wait and does not throw. The group stays to be destroyed in the usual order:
// models first, then side groups, then the group.
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

// The NCCL backend, defined only in builds that found nccl.h (MUSTER_WITH_NCCL).
void add_nccl_backend(const ProcessGroupPtr& group, const c10::intrusive_ptr<c10d::Store>& store,
                      const ProcessGroupOptions& options);

}  // namespace muster
