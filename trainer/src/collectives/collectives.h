// What the ranks do together on values: gathers, reductions, broadcasts, the dealing out of a
// batch.
//
// All functions are for the training thread and collective unless they say otherwise; all of them
// work alone too (a null group), with the same results as a world of one. Tensors are taken
// flattened (nested.h), detached, of any device that the group has a backend for; undefined ones
// pass through. No gradient flows through any of them.
//
// Agreement: before values move, the ranks compare what they call (function, options, number of
// tensors, dtypes, shapes). When they differ, every rank throws the same CommunicationError that
// names the ranks and what each of them called. Without this a difference is a hang, or garbage.
// Where a function exchanges lengths anyway the comparison is free, as it is for values so small
// (240 bytes) that they come along with it; elsewhere it is one all-gather of 256 bytes a rank
// (measured with 2 ranks: 0.011 ms through the shared memory of one machine, 0.12 ms by sockets).
// By sockets it is a ring, whose time grows with the number of ranks, so that above
// kAlwaysCheckedWorldSize it is made in debug mode only; then the group's timeout ends a hang.
// Calls that do not come through here (gradients) are compared below: parallel/shared_gloo.h.
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

// What rank `from` deals out by Collectives::scatter.
struct ScatterBatch {
  // On the CPU. Tensors with dimensions must agree in dimension 0, the samples; tensors without any
  // go to every rank whole.
  std::vector<at::Tensor> tensors;
  // Reaches every rank with its share, for example nested_structure() of the batch. It travels
  // only when it or the tensors' dtypes or shapes differ from the last batch's.
  std::string note;
};

struct ScatterShare {
  std::vector<at::Tensor> tensors;  // this rank's samples; the tensors are its own
  std::string note;
  int64_t batch_size = 0;  // samples of the whole batch
  int64_t begin = 0;       // this rank's are [begin, end) of it, by split_range (nested.h)
  int64_t end = 0;
};

// A reduction on its way; see Collectives::start_reduce. Movable. Dropping it unfinished is
// allowed: the ranks' collectives still match.
class PackedReduction {
 public:
  // The reduced numbers in the order given. Waits for the other ranks when they are not here yet;
  // for numbers of a device until they are copied. Once only. Not collective. Throws
  // CommunicationError when the communication failed.
  std::vector<double> finish();

  // Whether finish() would return without waiting.
  bool ready() const;

 private:
  friend class Collectives;
  void copy_to_host_when_ordered(const std::string& backend);

  at::Tensor packed_;
  std::vector<at::Tensor> in_flight_;  // what the backend works on
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

  // `group` may be null for a world of one; it is shared and its timeout holds. `device` is where
  // numbers are packed for start_reduce. `debug` must be equal on all ranks.
  Collectives(ProcessGroupPtr group, const Topology& topology, at::Device device, bool debug);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  at::Device device() const { return device_; }
  const ProcessGroupPtr& group() const { return group_; }

  // Every rank's tensors joined along dimension 0 in rank order; tensors without dimensions become
  // [world_size]. Shapes and dtypes must be equal on all ranks; any dtype, also without elements.
  // Alone: copies. Throws CommunicationError when the ranks differ.
  std::vector<at::Tensor> gather(const std::vector<at::Tensor>& tensors);

  // As gather, for tensors whose dimension 0 may differ between ranks (also 0): the result has the
  // sum of them. Costs one exchange of the sizes more, and moves the largest rank's size for each.
  std::vector<at::Tensor> gather_ragged(const std::vector<at::Tensor>& tensors);

  // Each element reduced over the ranks, then times `scale`, as new tensors of the same dtype. Sums
  // of float16 and bfloat16 on the CPU are made in float32 and rounded once; bool counts as 0 and 1
  // and stays bool, so that sum and max are "any" and min is "all". Throws std::invalid_argument
  // for a mean or a scale of integers or bool, and for the maximum or minimum of complex numbers
  // or uint64.
  std::vector<at::Tensor> reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                                 double scale = 1.0);

  // Starts the reduction of many numbers as one all-reduce and returns at once, so that training
  // goes on meanwhile. Each tensor has one element of any real dtype; they travel as float64
  // (float32 on devices without it). All ranks give equally many; checked in debug mode only, as
  // checking would wait for the other ranks.
  PackedReduction start_reduce(const std::vector<at::Tensor>& numbers, Reduction reduction);
  std::vector<double> reduce_packed(const std::vector<at::Tensor>& numbers, Reduction reduction) {
    return start_reduce(numbers, reduction).finish();
  }

  // Each tensor padded along `dim` (negative: from the end) to the largest size of any rank with
  // pad_index, behind its elements or, with pad_first, before them. Tensors without that dimension
  // stay as they are; the dtype is kept (Accelerate's changes with some pad_index). The ranks'
  // other dimensions are not compared. Throws std::invalid_argument when pad_index is no value of
  // the dtype.
  std::vector<at::Tensor> pad_across_processes(const std::vector<at::Tensor>& tensors,
                                               int64_t dim = 0, const at::Scalar& pad_index = 0,
                                               bool pad_first = false);

  // Rank `from`'s values: its own tensors there, new ones elsewhere. Shapes and dtypes must agree.
  std::vector<at::Tensor> broadcast(const std::vector<at::Tensor>& tensors, int from = 0);

  // Every rank's bytes in rank order; any length, also none.
  std::vector<std::string> gather_object(const std::string& bytes);
  // Every rank's items, one list after the other in rank order (Accelerate's gather_object).
  std::vector<std::string> gather_object(const std::vector<std::string>& items);

  // Rank `from`'s bytes, or list, on every rank; what other ranks give is not looked at.
  std::string broadcast_object(const std::string& bytes, int from = 0);
  std::vector<std::string> broadcast_object_list(const std::vector<std::string>& items,
                                                 int from = 0);

  // Deals a batch of rank `from` out: each rank gets its samples by one message. `batch` is looked
  // at on rank `from` only; null there says "no more batches" and gives nullopt everywhere.
  // Throws std::invalid_argument on rank `from`, and CommunicationError with its text elsewhere,
  // when the tensors do not agree in dimension 0 or are not on the CPU.
  std::optional<ScatterShare> scatter(const ScatterBatch* batch, int from = 0);

  // Called by rank `from` in place of scatter() when it has no batch because of an error: scatter()
  // on the other ranks throws CommunicationError with this text.
  void scatter_failure(const std::string& message, int from = 0);

  // True on all ranks when it is true on any.
  bool any_rank(bool own);

  // Waits until all ranks are here.
  void wait();

  // Compares what the ranks are about to do, for a collective that does not compare by itself:
  // throws CommunicationError on all of them when it differs. As `agree`: nothing above
  // kAlwaysCheckedWorldSize without debug. The texts go into the message.
  void meet(const char* function, const std::string& options = "");

  // The state of rank 0's default generators (CPU and this trainer's device) on all ranks.
  // Source: accelerate/utils/random.py, synchronize_rng_states.
  void synchronize_rng_states();

 private:
  // One call as the ranks compare it.
  struct Call {
    // What of the shapes must be equal on all ranks.
    enum class Compare { shapes, all_but_first, dimensions };

    const char* function;
    std::string options = "";  // "sum", "from 0"
    const std::vector<at::Tensor>* tensors = nullptr;
    Compare compare = Compare::shapes;
    std::string refused = "";  // why this rank cannot make the call: std::invalid_argument for all

    std::string describe() const;
  };

  bool always_checks() const { return debug_ || world_size_ <= kAlwaysCheckedWorldSize; }
  // The ranks' numbers, after their calls were compared; throws what `call` refuses.
  // `travelling`, a few bytes, becomes those of all ranks: [world_size, bytes].
  std::vector<int64_t> exchange(const Call& call, int64_t number, at::Tensor* travelling = nullptr);
  // Compares the calls where always_checks(), then throws what `call` refuses. Contiguous `values`
  // on the CPU that are small come along: they are returned of all ranks, [world_size, …] each;
  // else nothing is.
  std::vector<at::Tensor> agree(const Call& call, const std::vector<at::Tensor>& values = {});
  [[noreturn]] void throw_disagreement(const std::string& own);
  // Why there is no rank `from`, or "".
  std::string refused_rank(const char* function, int from) const;
  // Runs action, with errors of the transport as CommunicationError.
  void communicate(const char* function, const std::function<void()>& action) const;
  c10d::Backend& backend(const at::Tensor& tensor) const;
  bool gathers_by_sum(const at::Tensor& own) const;
  // The bytes of all ranks' equally long tensors, [world_size, bytes] on their device.
  at::Tensor all_gather_bytes(const char* function, const at::Tensor& own) const;
  // Every rank's bytes, whose sizes are known.
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
  std::string scatter_layout_;  // of the last batch
};

}  // namespace muster
