// Collectives of the ranks that share a copy, built from those that the backend really has.
//
// Gloo's reduce_scatter is an all-reduce of everything, of which each rank keeps its chunk, and its
// _allgather_base copies twice. With Gloo, chunks are therefore exchanged by alltoall_base and
// added in the order of the ranks (measured in docs/benchmarks.md). Other backends use the real
// collectives.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <vector>

#include "parallel/process_group.h"

namespace muster {

// A collective in flight. Copies share it; wait() is for the training thread or autograd's.
class PendingCollective {
 public:
  // Returns when the result is available (on a device: to work that is queued afterwards). Throws
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
  // `group`: the ranks that share a copy; null if that is one rank.
  ShardGroup(ProcessGroupPtr group, at::Device device);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // whole [size * chunk] from every rank's chunk. `own` may be its own place in whole.
  PendingCollective all_gather(const at::Tensor& whole, const at::Tensor& own);
  // own [chunk] = the sum over the ranks of their `whole`, whose contents are overwritten.
  // `scratch`: as large as whole if needs_scratch(), also overwritten.
  PendingCollective reduce_scatter(const at::Tensor& own, const at::Tensor& whole,
                                   const at::Tensor& scratch);
  bool needs_scratch() const { return gloo_; }
  // In place. broadcast: from the first rank.
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
