// Collectives on values: gather, reduce, broadcast, and scattering a batch.
//
// Call all functions from the training thread; all are collective unless stated otherwise. They
// also work without a group (null), as in a world of one. Tensors are flattened (nested.h) and
// detached, on any device that the group has a backend for; undefined ones pass through. No
// gradient flows through them.
//
// Agreement: before data moves, the ranks compare what they call (function, options, number of
// tensors, dtypes, shapes). If they differ, every rank throws the same CommunicationError, which
// names the ranks and what each of them called. Without this check, a mismatch means a hang or
// garbage. The comparison is free if a function exchanges lengths anyway, and for values small
// enough (240 bytes) to be sent with it; otherwise it is one all-gather of 256 bytes per rank
// (measured with 2 ranks: 0.011 ms through shared memory on one machine, 0.12 ms over sockets).
// Over sockets it is a ring, whose time grows with the number of ranks, so above
// kAlwaysCheckedWorldSize it only runs in debug mode, and the group's timeout ends a hang. Calls
// that bypass this class (gradients) are compared at a lower level: parallel/shared_gloo.h.
#pragma once

#include <c10/core/Event.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/topology.h"
#include "muster/collectives/reduction.h"
#include "parallel/process_group.h"

namespace muster {

// What rank `from` scatters with Collectives::scatter.
struct ScatterBatch {
  // On the CPU. Tensors must agree in dimension 0, the samples; 0-d tensors go to every rank in
  // full.
  std::vector<at::Tensor> tensors;
  // Sent to every rank with its share, for example nested_structure() of the batch. Only sent if it
  // or the tensors' dtypes or shapes differ from the previous batch's.
  std::string note;
};

struct ScatterShare {
  std::vector<at::Tensor> tensors;  // this rank's samples; not shared with anything
  std::string note;
  int64_t batch_size = 0;  // samples of the whole batch
  int64_t begin = 0;       // this rank's are [begin, end) of it, by split_range (nested.h)
  int64_t end = 0;
};

// A reduction in flight; see Collectives::start_reduce. Movable. May be dropped unfinished: the
// ranks' collectives still match.
class PackedReduction {
 public:
  // The reduced numbers in the given order. Waits for ranks that have not contributed yet, and for
  // the copy from the device. Call it once. Not collective. Throws CommunicationError if the
  // communication failed.
  std::vector<double> finish();

  // Whether finish() would return without waiting.
  bool ready() const;

 private:
  friend class Collectives;
  void copy_to_host_when_ordered(const std::string& backend);

  at::Tensor packed_;
  std::vector<at::Tensor> in_flight_;  // the backend's buffers
  at::Tensor on_host_;
  c10::intrusive_ptr<c10d::Work> work_;
  std::shared_ptr<c10::Event> copied_;
  double divisor_ = 1.0;
  std::string owner_;  // for messages
};

class Collectives {
 public:
  // See "Agreement" above.
  static constexpr int kAlwaysCheckedWorldSize = 16;

  // `group` may be null for a world of one; it is shared, and its timeout applies. `device` is
  // where numbers are packed for start_reduce. `debug` must be equal on all ranks.
  Collectives(ProcessGroupPtr group, const Topology& topology, at::Device device, bool debug);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  at::Device device() const { return device_; }
  const ProcessGroupPtr& group() const { return group_; }

  // Every rank's tensors concatenated along dimension 0 in rank order; 0-d tensors become
  // [world_size]. Shapes and dtypes must be equal on all ranks; any dtype, empty tensors included.
  // In a world of one: copies. Throws CommunicationError if the ranks differ.
  std::vector<at::Tensor> gather(const std::vector<at::Tensor>& tensors);

  // Like gather, for tensors whose dimension 0 may differ between ranks (and may be 0): the
  // result's is their sum. Costs an extra exchange of sizes, and every rank sends the size of the
  // largest.
  std::vector<at::Tensor> gather_ragged(const std::vector<at::Tensor>& tensors);

  // Reduces each element over the ranks, then multiplies by `scale`; returns new tensors of the
  // same dtype. On the CPU, float16 and bfloat16 are summed in float32 and rounded once; bool
  // counts as 0 and 1 and stays bool, so sum and max mean "any" and min means "all". Throws
  // std::invalid_argument for a mean or scale of integers or bool, and for the maximum or minimum
  // of complex numbers or uint64.
  std::vector<at::Tensor> reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                                 double scale = 1.0);

  // Starts the reduction of many numbers as one all-reduce and returns at once, so that training
  // continues meanwhile. Each tensor has one element of any real dtype; they are reduced as float64
  // (float32 on devices without it). All ranks must pass the same number; checked in debug mode
  // only, because the check would wait for the other ranks.
  PackedReduction start_reduce(const std::vector<at::Tensor>& numbers, Reduction reduction);
  std::vector<double> reduce_packed(const std::vector<at::Tensor>& numbers, Reduction reduction) {
    return start_reduce(numbers, reduction).finish();
  }

  // Each tensor padded along `dim` (negative: from the end) to the largest size of any rank with
  // pad_index, behind its elements or, with pad_first, before them. Tensors without that dimension
  // stay as they are; the dtype is kept (Accelerate's changes with some pad_index). The ranks'
  // other dimensions are not compared. Throws std::invalid_argument when pad_index is not a value
  // of the dtype.
  std::vector<at::Tensor> pad_across_processes(const std::vector<at::Tensor>& tensors,
                                               int64_t dim = 0, const at::Scalar& pad_index = 0,
                                               bool pad_first = false);

  // Rank `from`'s values: its own tensors there, new ones elsewhere. Shapes and dtypes must agree.
  std::vector<at::Tensor> broadcast(const std::vector<at::Tensor>& tensors, int from = 0);

  // Every rank's bytes in rank order; any length, including 0.
  std::vector<std::string> gather_object(const std::string& bytes);
  // Every rank's items, concatenated in rank order (Accelerate's gather_object).
  std::vector<std::string> gather_object(const std::vector<std::string>& items);

  // Rank `from`'s bytes, or list, on every rank; the other ranks' arguments are ignored.
  std::string broadcast_object(const std::string& bytes, int from = 0);
  std::vector<std::string> broadcast_object_list(const std::vector<std::string>& items,
                                                 int from = 0);

  // Scatters a batch from rank `from`: each rank gets its samples in one message. `batch` is used
  // on rank `from` only; null there means "no more batches" and returns nullopt everywhere. Throws
  // std::invalid_argument on rank `from`, and CommunicationError with its message elsewhere, if the
  // tensors do not agree in dimension 0 or are not on the CPU.
  std::optional<ScatterShare> scatter(const ScatterBatch* batch, int from = 0);

  // Called by rank `from` instead of scatter() if an error left it without a batch: scatter() on
  // the other ranks throws CommunicationError with this message.
  void scatter_failure(const std::string& message, int from = 0);

  // True on all ranks if `own` is true on any.
  bool any_rank(bool own);

  // Barrier.
  void wait();

  // Compares what the ranks are about to do, for a collective that has no comparison of its own:
  // throws CommunicationError on all of them if it differs. Like `agree`, does nothing above
  // kAlwaysCheckedWorldSize without debug. The arguments appear in the message.
  void meet(const char* function, const std::string& options = "");

  // Copies the state of rank 0's default generators (CPU and this trainer's device) to all ranks.
  // Source: accelerate/utils/random.py, synchronize_rng_states.
  void synchronize_rng_states();

 private:
  // One call as the ranks compare it.
  struct Call {
    // Which parts of the shapes must be equal on all ranks.
    enum class Compare { shapes, all_but_first, dimensions };

    const char* function;
    std::string options = "";  // "sum", "from 0"
    const std::vector<at::Tensor>* tensors = nullptr;
    Compare compare = Compare::shapes;
    std::string refused =
        "";  // why this rank cannot make the call; all throw std::invalid_argument

    std::string describe() const;
  };

  bool always_checks() const { return debug_ || world_size_ <= kAlwaysCheckedWorldSize; }
  // Compares the ranks' calls and returns their numbers; throws if `call` is refused. `travelling`,
  // a few bytes, becomes those of all ranks: [world_size, bytes].
  std::vector<int64_t> exchange(const Call& call, int64_t number, at::Tensor* travelling = nullptr);
  // Compares the calls if always_checks(), then throws if `call` is refused. Small contiguous CPU
  // `values` are sent along, and those of all ranks are returned, each as [world_size, …];
  // otherwise nothing is returned.
  std::vector<at::Tensor> agree(const Call& call, const std::vector<at::Tensor>& values = {});
  [[noreturn]] void throw_disagreement(const std::string& own);
  // The error for an invalid rank `from`, or "".
  std::string refused_rank(const char* function, int from) const;
  // Runs action and rethrows transport errors as CommunicationError.
  void communicate(const char* function, const std::function<void()>& action) const;
  c10d::Backend& backend(const at::Tensor& tensor) const;
  bool gathers_by_sum(const at::Tensor& own) const;
  // All ranks' bytes, [world_size, bytes] on the tensor's device. Sizes must be equal.
  at::Tensor all_gather_bytes(const char* function, const at::Tensor& own) const;
  // Every rank's bytes, with known sizes.
  std::vector<std::string> gather_strings(const char* function, const std::string& own,
                                          const std::vector<int64_t>& sizes) const;
  std::string broadcast_bytes(const char* function, const std::string& bytes, int64_t size,
                              int from) const;
  void all_reduce(const char* function, const std::vector<at::Tensor>& wires,
                  c10d::ReduceOp op) const;
  std::vector<int64_t> announce(int from, int64_t number);
  void reduce_wires(std::vector<at::Tensor>& wires, c10d::ReduceOp op) const;
  ScatterShare scatter_own(const ScatterBatch& batch, int from);
  ScatterShare scatter_received(int from, int64_t layout_bytes);

  const ProcessGroupPtr group_;
  const int rank_;
  const int world_size_;
  const at::Device device_;
  const bool on_one_machine_;
  const bool debug_;
  std::string scatter_layout_;  // of the previous batch
};

// The elements of a contiguous tensor as one dimension of bytes that shares its memory.
at::Tensor as_bytes(const at::Tensor& contiguous);

}  // namespace muster
