// Gloo with a short cut for the ranks of one machine: small reductions and broadcasts of CPU
// tensors go through shared memory and are done when the call returns.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <memory>
#include <optional>
#include <vector>

#include "parallel/connections.h"
#include "parallel/shared_reduction.h"

namespace muster {

class SharedGloo : public c10d::ProcessGroupGloo {
 public:
  // Larger tensors are left to Gloo, whose threads reduce them beside the rest of backward.
  static constexpr size_t kBytesMax = 4 << 20;

  using ProcessGroupGloo::ProcessGroupGloo;

  // Gloo's connections, by which a lost rank is noticed.
  void set_connections(const std::vector<SocketIdentity>& connections) {
    connections_ = connections;
  }
  const std::vector<SocketIdentity>& connections() const { return connections_; }

  // Opens the short cut on all ranks, or on none where they do not share a machine. Collective.
  void share_memory();
  bool shares_memory() const { return shared_ != nullptr; }

  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options = c10d::AllreduceOptions()) override;
  c10::intrusive_ptr<c10d::Work> broadcast(
      std::vector<at::Tensor>& tensors,
      const c10d::BroadcastOptions& options = c10d::BroadcastOptions()) override;

 private:
  bool takes(const std::vector<at::Tensor>& tensors) const;
  bool all_ranks(bool own);

  std::vector<SocketIdentity> connections_;
  std::unique_ptr<SharedReduction> shared_;
};

}  // namespace muster
