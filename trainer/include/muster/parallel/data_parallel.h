// Data parallelism: every rank holds the whole model, gradients are averaged during backward.
//
// Built on torch's own c10d::Reducer, so that buckets, overlap of communication with backward and
// numbers are those of Python's DistributedDataParallel. Parameter names never get a "module."
// prefix. All functions are called from the training thread; some are collective: all ranks must
// call them at the same point. Source: torch/nn/parallel/distributed.py and
// csrc/distributed/c10d/reducer.cpp.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/errors.h"
#include "muster/values/nested.h"

namespace muster {

template <typename Holder>
class PreparedModel;  // prepared.h

// The form in which gradients travel between the ranks. The halves are rounded before they are
// summed: half the bytes, and differences in the third to fourth decimal. Same numbers as torch's
// fp16_compress_hook and bf16_compress_hook.
enum class GradientCompression { none, fp16, bf16 };

struct DataParallelOptions {
  int64_t bucket_cap_mb = 25;  // gradients are reduced in buckets of this size, in MiB
  // The first bucket may be smaller, so that communication starts early. Not set: as Python, 1 MiB
  // beside a bucket_cap_mb of 25, else bucket_cap_mb.
  std::optional<int64_t> first_bucket_cap_mb;
  // Gradients live inside the buckets, which saves one copy of all gradients. zero_grad() must then
  // be the one of PreparedOptimizer (torch's throws "Can't detach views in-place").
  bool gradient_as_bucket_view = true;
  // Buffers (running means, for instance) of rank 0 are sent to all before training forwards: each
  // one that follows a synchronized one, as in Python.
  bool broadcast_buffers = true;
  // Python also does so before a forward without gradients: an evaluation is then collective. False
  // lets one rank evaluate alone.
  bool broadcast_buffers_in_evaluation = false;
  // Walks the graph after each forward to find parameters that the loss does not depend on; without
  // it, such a parameter is an error (UnusedParametersError). Buckets are never rebuilt.
  bool find_unused_parameters = false;
  // The caller's word that the used parameters and the graph are the same in every iteration:
  // unused parameters and activation checkpointing then cost nothing after the first.
  bool static_graph = false;
  GradientCompression gradient_compression = GradientCompression::none;
  // Gradients are copied into a bucket together, by two kernels per bucket instead of one per
  // parameter. Pays for many small parameters on a device. LibTorch 2.12 and newer; else no effect.
  bool batched_grad_copy = false;
  // Leaves out the reduction of buckets whose parameters are unused; these must then be the same on
  // all ranks in every iteration.
  bool skip_all_reduce_unused_params = false;
  // Of so many iterations one is timed for last_timings(), and the first ten.
  int timing_sample_rate = 100;
};

// What one timed iteration spent, in seconds, by the host's clock (events on a CUDA device).
// Source: c10d::Timer, recorded by the Reducer.
struct DataParallelTimings {
  int64_t iteration = 0;        // counted by synchronized forwards, from 1
  double forward_compute = 0;   // before_forward to after_forward
  double backward_compute = 0;  // after_forward to the last gradient's being ready
  // From the first bucket's being handed to the backend to the last one's being reduced. On Gloo:
  // its copies, its threads' queue and the wait for a slower rank are part of it. Between ranks
  // that share memory a reduction runs within backward, so that it counts as overlap as well.
  double communication = 0;
  double overlap = 0;  // the part of communication that ran beside backward_compute
};

// A backward pass left parameters without gradients and find_unused_parameters is off.
class UnusedParametersError : public Error {
 public:
  using Error::Error;
};

// A rank ran out of inputs inside JoinUnevenInputs with throw_on_early_termination.
class UnevenInputsError : public Error {
 public:
  using Error::Error;
};

// What surrounds the forward pass of one model. Users meet it through PreparedModel.
class DataParallel {
 public:
  struct State;

  explicit DataParallel(std::shared_ptr<State> state);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Around each forward pass. With gradients enabled they prepare the reduction that the next
  // backward() performs; without (torch::NoGradGuard) they do nothing, so evaluation may differ
  // from rank to rank. before_forward throws UnusedParametersError, naming the parameters, when the
  // iteration before it did not give every parameter a gradient. Where needs_outputs() is true,
  // after_forward must get the tensors that forward returned (all of them, nested ones flattened;
  // else it throws std::invalid_argument), and the caller goes on with what wrap_outputs then
  // returns in their place.
  void before_forward();
  void after_forward(const std::vector<at::Tensor>& outputs = {});
  bool needs_outputs() const;
  std::vector<at::Tensor> wrap_outputs(std::vector<at::Tensor> outputs);
  // Before a backward of `loss`: when one has run since the last forward (two losses on the same
  // outputs, two forwards before two backwards), prepares the reduction of this one too. Without
  // the call a second backward throws Error; Python's DistributedDataParallel leaves its gradients
  // different on each rank. Throws Error under static_graph and inside JoinUnevenInputs, which
  // know one backward for each forward.
  void before_backward(const at::Tensor& loss);

  // While false, backward() adds to the local gradients and reduces nothing.
  void set_synchronizing(bool synchronizing);
  bool synchronizing() const;

  // Lets the gradients go: grad() is then undefined for every parameter, as after Python's
  // zero_grad(set_to_none=True).
  void zero_grad();

  // Gives all ranks rank 0's buffers now. Collective.
  void sync_buffers();

  // The newest timed iteration, known from the next forward on; nothing before it, in a world of
  // one, and where that iteration reduced nothing. Costs nothing; not collective.
  std::optional<DataParallelTimings> last_timings() const;

  // The parameters' indices by bucket, in the order of reduction; empty in a world of one. With
  // three ranks and more the sums depend on it, so an exact resume restores it. Collective.
  std::vector<std::vector<int64_t>> bucket_order();
  void set_bucket_order(const std::vector<std::vector<int64_t>>& order);

  torch::nn::Module& module() const;
  const DataParallelOptions& options() const;
  int64_t world_size() const;

  // For the other files of the SDK.
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

// While it lives, backward() of the model adds gradients up without reducing them; forward must run
// inside as well. Scope it around all but the last micro-batch of an accumulation.
class NoSync {
 public:
  template <typename Holder>
  explicit NoSync(PreparedModel<Holder>& model) : NoSync(model.data_parallel()) {}
  explicit NoSync(DataParallel& data_parallel)
      : data_parallel_(data_parallel), before_(data_parallel.synchronizing()) {
    data_parallel_.set_synchronizing(false);
  }
  ~NoSync() { data_parallel_.set_synchronizing(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  DataParallel& data_parallel_;
  bool before_;
};

struct JoinOptions {
  bool enable = true;  // false: the scope does nothing
  // True: gradients are divided by the number of all ranks, so that every sample weighs the same.
  // False: by the number of those that still have inputs.
  bool divide_by_initial_world_size = true;
  // All ranks throw UnevenInputsError as soon as one has run out of inputs; needed where forward
  // has collectives of its own (SyncBatchNorm).
  bool throw_on_early_termination = false;
};

// Lets ranks with different numbers of batches train together: those that are done take part in the
// others' reductions with zeros until all are done; then all get the weights and buffers of a rank
// that was last.
//
//   {
//     muster::JoinUnevenInputs join({&model.data_parallel()});
//     for (auto& batch : loader) {...}  // forward, backward, step
//   }
//
// Collective: every rank opens the scope and leaves it. Each iteration calls every model once, in
// this order, and runs a model's backward before the next one's forward. It costs two small
// reductions per iteration. Scopes do not nest. Source: torch/distributed/algorithms/join.py.
class JoinUnevenInputs {
 public:
  explicit JoinUnevenInputs(std::vector<DataParallel*> models, const JoinOptions& options = {});
  // finish(), unless an exception is leaving the scope.
  ~JoinUnevenInputs() noexcept(false);
  JoinUnevenInputs(const JoinUnevenInputs&) = delete;
  JoinUnevenInputs& operator=(const JoinUnevenInputs&) = delete;

  // This rank has no more inputs: follows the others until they are done too. Throws
  // UnevenInputsError where that was asked for, CommunicationError when a rank is lost.
  void finish();

 private:
  void leave();
  void follow();

  std::vector<DataParallel*> models_;
  JoinOptions options_;
  int exceptions_;
  bool open_ = false;
};

}  // namespace muster
