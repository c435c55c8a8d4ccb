// What the owners of a unit's chunks do together, with the collectives that a backend really has.
//
// Gloo's reduce_scatter is an all-reduce of everything of which each rank keeps its chunk, and its
// _allgather_base copies twice; here chunks go from rank to rank by alltoall_base and are added up
// in the order of the ranks (measured in docs/benchmarks.md). Other backends have the real ones.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <vector>

#include "parallel/process_group.h"

namespace muster {

// A collective on its way. Copies share it; wait() is for the training thread, or autograd's.
class PendingCollective {
 public:
  // Returns when the result is there (on a device: for whatever is queued after this). Throws
  // CommunicationError.
  void wait();
  bool started() const { return started_; }

 private:
  friend class ShardGroup;
  bool started_ = false;
  int rank_ = 0;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  std::vector<at::Tensor> tensors_;  // in use until then
  std::function<void()> finish_;
};

class ShardGroup {
 public:
  // `group`: the ranks that divide a copy; null for one rank alone.
  ShardGroup(ProcessGroupPtr group, at::Device device);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // whole [size * chunk] from every rank's chunk. `own` may lie in its place in whole.
  PendingCollective all_gather(const at::Tensor& whole, const at::Tensor& own);
  // own [chunk] = the sum over the ranks of their `whole`, which is used up.
  // `scratch` is as large as whole where needs_scratch(), and used up too.
  PendingCollective reduce_scatter(const at::Tensor& own, const at::Tensor& whole,
                                   const at::Tensor& scratch);
  bool needs_scratch() const { return gloo_; }
  // In place. broadcast: the first rank's.
  PendingCollective broadcast(const at::Tensor& tensor);
  PendingCollective all_reduce(const at::Tensor& tensor, c10d::ReduceOp operation);

 private:
  c10::intrusive_ptr<c10d::Backend> backend() const;
  PendingCollective started(std::vector<at::Tensor> tensors) const;

  ProcessGroupPtr group_;
  const int rank_, size_;
  const at::Device device_;
  const bool gloo_;
};

}  // namespace muster
