// Gloo with a short cut for the ranks of one machine: small reductions and broadcasts of CPU
// tensors go through shared memory and are done when the call returns. Every collective is noted in
// the process's CollectiveLog, and those of the short cut and all waiting show in a profile, as
// Gloo's own do: "shared_memory:all_reduce", "wait:all_reduce", "gloo:all_reduce".
//
// Ranks that call different collectives get a CommunicationError: on one machine before anything
// moves, all of them, with what each rank calls (shared_calls.h). Where the ranks share no memory
// their calls have different tags, so that they never meet in Gloo: the timeout ends them. A group
// that has failed stays so: later calls are refused with the first failure (group_health.h).
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
  // Larger tensors are left to Gloo, whose threads reduce them beside the rest of backward.
  static constexpr size_t kBytesMax = 4 << 20;

  using ProcessGroupGloo::ProcessGroupGloo;
  ~SharedGloo() override;

  // What the group is called in records of hangs, and its ranks as the run counts them, in the
  // group's order. Before the first collective; else "group" with ranks of its own.
  void set_name(const std::string& name, const std::vector<int>& ranks);

  const std::vector<int>& ranks() const { return ranks_; }  // as set_name got them

  // Gloo's connections, by which a lost rank is noticed.
  void set_connections(std::vector<SocketIdentity> connections) {
    health_->set_connections(std::move(connections));
  }
  const std::vector<SocketIdentity>& connections() const { return health_->connections(); }

  // Lets the ranks compare their calls and, with `reduces`, opens the short cut: on all ranks, or
  // on none where they do not share a machine. Collective, and before all other collectives.
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
  // What a collective is, besides its tensors: all ranks must call the same.
  struct Call {
    int operation;            // of kNames in the .cc
    std::string how = "";     // "sum", "from 0"
    bool equal_sizes = true;  // the ranks' tensors are equally large
  };

  // Refuses a call when the group has failed, or when a rank calls something else; then notes it.
  uint64_t begin(const Call& call, const std::vector<at::Tensor>& tensors, const char* carrier);
  [[noreturn]] void throw_difference(const std::vector<std::string>& calls);
  // Starts a collective of Gloo, which is noted until it ends.
  template <typename Start>
  c10::intrusive_ptr<c10d::Work> noted(const Call& call, const std::vector<at::Tensor>& tensors,
                                       const Start& start);
  // Runs one through shared memory, noted and profiled.
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
