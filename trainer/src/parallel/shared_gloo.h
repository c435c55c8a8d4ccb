// Gloo with a fast path for the ranks of one machine: small reductions and broadcasts of CPU
// tensors go through shared memory and are synchronous. Every collective is recorded in the
// process's CollectiveLog. The fast path's collectives and all waiting show up in profiles, as
// Gloo's own do: "shared_memory:all_reduce", "wait:all_reduce", "gloo:all_reduce".
//
// Ranks that call different collectives get a CommunicationError: on one machine before data moves,
// on all ranks, with what each rank calls (shared_calls.h). Without shared memory their calls have
// different tags, so they never match in Gloo and end by the timeout. A failed group stays failed:
// later calls throw the first failure (group_health.h).
#pragma once

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diagnosis/collective_log.h"
#include "parallel/group_health.h"
#include "parallel/shared_reduction.h"

namespace muster {

class SharedGloo : public c10d::ProcessGroupGloo {
 public:
  // Larger tensors go to Gloo, whose threads reduce them concurrently with backward.
  static constexpr size_t kBytesMax = 4 << 20;

  using ProcessGroupGloo::ProcessGroupGloo;
  ~SharedGloo() override;

  // The group's name in hang records, and its global ranks, in the group's order. Call before the
  // first collective; the default is "group", with ranks numbered from 0.
  void set_name(const std::string& name, const std::vector<int>& ranks);

  const std::vector<int>& ranks() const { return ranks_; }  // as passed to set_name

  // Gloo's connections, which reveal a lost rank.
  void set_connections(std::vector<SocketIdentity> connections) {
    health_->set_connections(std::move(connections));
  }
  const std::vector<SocketIdentity>& connections() const { return health_->connections(); }

  // Lets the ranks compare their calls and, with `reduces`, enables the fast path: on all ranks, or
  // on none if they do not share a machine. Collective; call it before all other collectives.
  void share_memory(bool reduces);

  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options = c10d::AllreduceOptions()) override;
  c10::intrusive_ptr<c10d::Work> broadcast(
      std::vector<at::Tensor>& tensors,
      const c10d::BroadcastOptions& options = c10d::BroadcastOptions()) override;
  c10::intrusive_ptr<c10d::Work> allgather(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> gather(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::GatherOptions& options = c10d::GatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> scatter(
      std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
      const c10d::ScatterOptions& options = c10d::ScatterOptions()) override;
  c10::intrusive_ptr<c10d::Work> reduce(
      std::vector<at::Tensor>& tensors,
      const c10d::ReduceOptions& options = c10d::ReduceOptions()) override;
#if TORCH_VERSION_MINOR >= 14
  c10::intrusive_ptr<c10d::Work> all_to_all_single(
#else
  c10::intrusive_ptr<c10d::Work> alltoall_base(
#endif
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_counts,
      std::vector<int64_t>& input_counts,
      const c10d::AllToAllOptions& options = c10d::AllToAllOptions()) override;
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options = c10d::BarrierOptions()) override;

 private:
  // A collective apart from its tensors; all ranks must call the same.
  struct Call {
    int operation;            // of kNames in the .cc
    std::string how = "";     // "sum", "from 0"
    bool equal_sizes = true;  // all ranks' tensors have the same size
  };

  // Throws if the group has failed or a rank calls something else; otherwise logs the call.
  uint64_t begin(const Call& call, const std::vector<at::Tensor>& tensors, const char* carrier);
  [[noreturn]] void throw_difference(const std::vector<std::string>& calls);
  // Starts a Gloo collective and logs its end.
  template <typename Start>
  c10::intrusive_ptr<c10d::Work> noted(const Call& call, const std::vector<at::Tensor>& tensors,
                                       const Start& start);
  // Runs one through shared memory, logged and profiled.
  template <typename Run>
  void noted_here(const Call& call, const std::vector<at::Tensor>& tensors, const Run& run);
  bool takes(const std::vector<at::Tensor>& tensors) const;
  bool all_ranks(bool own);
  std::unique_ptr<SharedMemory> common_memory(size_t bytes);

  const std::shared_ptr<GroupHealth> health_ = std::make_shared<GroupHealth>();
  std::unique_ptr<SharedReduction> shared_;
  std::optional<size_t> group_;  // in the CollectiveLog
  std::string name_;
  std::vector<int> ranks_;
  uint32_t calls_ = 0;
  std::string last_call_;  // "rank 0, all_reduce sum of 64 int64"
};

}  // namespace muster
