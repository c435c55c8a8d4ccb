// The process group of the job: torch's TCPStore, Gloo for CPU tensors, NCCL for CUDA tensors when
// LibTorch and this build have it. Called from the training thread only.
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
};

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

// Meets the other ranks. Null for a world of one. Throws CommunicationError that names the address,
// the interface and what to change.
ProcessGroupPtr make_process_group(const Topology& topology, at::Device device,
                                   const ProcessGroupOptions& options);

// The addresses or interfaces Gloo listens on: GLOO_SOCKET_IFNAME when set, else the local address
// that the route to `master_addr` uses (a loopback address on one machine). Never a guess from the
// host's name. `is_interface` tells which of the two the strings are.
struct GlooAddresses {
  bool is_interface = false;
  std::vector<std::string> names;
};
GlooAddresses gloo_addresses(const std::string& master_addr, int master_port);

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
