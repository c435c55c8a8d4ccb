// Data parallelism: every rank holds the whole model, and gradients are averaged during backward.
//
// Built on torch's c10d::Reducer, so buckets, the overlap of communication with backward, and
// numbers are those of Python's DistributedDataParallel. Parameter names never get a "module."
// prefix. Call all functions from the training thread; some are collective: all ranks must call
// them at the same point. Source: torch/nn/parallel/distributed.py and
// csrc/distributed/c10d/reducer.cpp.
#pragma once

#include <torch/nn/module.h>

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

// The dtype in which gradients are all-reduced. fp16 and bf16 round before the sum: half the bytes,
// and differences in the third to fourth decimal. Same numbers as torch's fp16_compress_hook and
// bf16_compress_hook.
enum class GradientCompression { none, fp16, bf16 };

struct DataParallelOptions {
  int64_t bucket_cap_mb = 25;  // gradients are reduced in buckets of this size, in MiB
  // The first bucket may be smaller, so that communication starts early. Not set: as in Python, 1
  // MiB if bucket_cap_mb is 25, else bucket_cap_mb.
  std::optional<int64_t> first_bucket_cap_mb;
  // Gradients are views of the buckets, which saves one copy of all gradients. zero_grad() must
  // then be PreparedOptimizer's (torch's throws "Can't detach views in-place").
  bool gradient_as_bucket_view = true;
  // Broadcasts rank 0's buffers (running means, for instance) before each training forward that
  // follows a synchronized one, as in Python.
  bool broadcast_buffers = true;
  // True: also before a forward without gradients, as in Python; evaluation is then collective.
  // False lets one rank evaluate alone.
  bool broadcast_buffers_in_evaluation = false;
  // Traverses the graph after each forward to find parameters that the loss does not depend on;
  // without it, such a parameter is an error (UnusedParametersError). Buckets are then never
  // rebuilt.
  bool find_unused_parameters = false;
  // The caller promises that the used parameters and the graph are the same in every iteration:
  // unused parameters and activation checkpointing then cost nothing after the first.
  bool static_graph = false;
  GradientCompression gradient_compression = GradientCompression::none;
  // Copies gradients into a bucket with two kernels per bucket instead of one per parameter. Helps
  // with many small parameters on a device. LibTorch 2.12 and newer; no effect before.
  bool batched_grad_copy = false;
  // Skips the reduction of buckets whose parameters are unused; the unused parameters must then be
  // the same on all ranks in every iteration.
  bool skip_all_reduce_unused_params = false;
  // Times one of this many iterations for last_timings(), and the first ten.
  int timing_sample_rate = 100;
};

// The times of one sampled iteration in seconds, by the host's clock (by events on a CUDA device).
// Source: c10d::Timer, recorded by the Reducer.
struct DataParallelTimings {
  int64_t iteration = 0;        // counted by synchronized forwards, from 1
  double forward_compute = 0;   // before_forward to after_forward
  double backward_compute = 0;  // after_forward until the last gradient is ready
  // From handing the first bucket to the backend until the last one is reduced. With Gloo this
  // includes copies, queueing for its threads, and waiting for slower ranks. Between ranks that
  // share memory, a reduction runs inside backward, so it also counts as overlap.
  double communication = 0;
  double overlap = 0;  // the part of communication that ran during backward_compute
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

// Data parallelism of one model, around its forward and backward. Users reach it through
// PreparedModel.
class DataParallel {
 public:
  struct State;

  explicit DataParallel(std::shared_ptr<State> state);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Call around each forward pass. With gradients enabled they prepare the reduction that the next
  // backward() performs; without (torch::NoGradGuard) they do nothing, so ranks may evaluate
  // different amounts. before_forward throws UnusedParametersError, naming the parameters, if the
  // previous iteration did not give every parameter a gradient. If needs_outputs() is true,
  // after_forward must get all tensors that forward returned, flattened (else it throws
  // std::invalid_argument), and the caller must use what wrap_outputs returns in their place.
  void before_forward();
  void after_forward(const std::vector<at::Tensor>& outputs = {});
  bool needs_outputs() const;
  std::vector<at::Tensor> wrap_outputs(std::vector<at::Tensor> outputs);
  // Call before a backward of `loss`: if one has already run since the last forward (two losses on
  // the same outputs, or two forwards before two backwards), prepares the reduction of this one
  // too. Without this call a second backward throws Error; Python's DistributedDataParallel
  // silently leaves different gradients on each rank. Throws Error under static_graph and inside
  // JoinUnevenInputs, which support only one backward per forward.
  void before_backward(const at::Tensor& loss);

  // Call before a forward with gradients. Whether a parameter is trained (requires_grad), its strides
  // and the hooks on it may change after prepare(), on all ranks alike: then reduces what is trained
  // now and returns true. Throws Error if its dtype, device or shape changed, and CommunicationError
  // if the ranks differ, on all of them and naming the parameter. Costs 0.1 ms for 10,000 parameters;
  // collective if something changed.
  bool follow_parameters();

  // While false, backward() accumulates into the local gradients and reduces nothing.
  void set_synchronizing(bool synchronizing);
  bool synchronizing() const;

  // Releases the gradients: grad() is then undefined for every parameter, as after Python's
  // zero_grad(set_to_none=True).
  void zero_grad();

  // Broadcasts rank 0's buffers now. Collective.
  void sync_buffers();

  // The newest timed iteration, available from the next forward on; nullopt before that, in a world
  // of one, and if that iteration reduced nothing. Costs nothing; not collective.
  std::optional<DataParallelTimings> last_timings() const;

  // The trained parameters' indices by bucket, in reduction order; empty in a world of one. With
  // three or more ranks the sums depend on this order, so an exact resume restores it: for the next
  // forward, if as many parameters are trained then. bucket_order is collective.
  std::vector<std::vector<int64_t>> bucket_order();
  void set_bucket_order(const std::vector<std::vector<int64_t>>& order);

  torch::nn::Module& module() const;
  const DataParallelOptions& options() const;
  int64_t world_size() const;

  // For the SDK's own use.
  State& state() const { return *state_; }
  // Scopes share it, so that one that outlives the model finds it.
  const std::shared_ptr<State>& shared_state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// While it lives, the model's backward() accumulates gradients without reducing them; forward must
// run inside it as well. Scope it around all but the last micro-batch of an accumulation window.
class NoSync {
 public:
  template <typename Holder>
  explicit NoSync(const PreparedModel<Holder>& model) : NoSync(model.data_parallel()) {}
  explicit NoSync(DataParallel& data_parallel)
      : data_parallel_(data_parallel.shared_state()), before_(data_parallel.synchronizing()) {
    data_parallel_.set_synchronizing(false);
  }
  ~NoSync() { data_parallel_.set_synchronizing(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  DataParallel data_parallel_;
  bool before_;
};

struct JoinOptions {
  bool enable = true;  // false: the scope does nothing
  // True: gradients are divided by the world size, so that every sample has the same weight. False:
  // by the number of ranks that still have inputs.
  bool divide_by_initial_world_size = true;
  // All ranks throw UnevenInputsError as soon as one runs out of inputs; required if forward runs
  // its own collectives (SyncBatchNorm).
  bool throw_on_early_termination = false;
};

// Lets ranks with different numbers of batches train together: ranks that are done contribute zeros
// to the others' reductions until all are done; then all get the weights and buffers of a rank that
// finished last.
//
//   {
//     muster::JoinUnevenInputs join({&model.data_parallel()});
//     for (auto& batch : loader) {...}  // forward, backward, step
//   }
//
// Collective: every rank enters and leaves the scope. Each iteration calls every model once, in the
// order of `models`, and runs a model's backward before the next one's forward. Costs two small
// reductions per iteration. Scopes do not nest. Source: torch/distributed/algorithms/join.py.
class JoinUnevenInputs {
 public:
  explicit JoinUnevenInputs(std::vector<DataParallel*> models, const JoinOptions& options = {});
  // Calls finish() unless the scope is left by an exception.
  ~JoinUnevenInputs() noexcept(false);
  JoinUnevenInputs(const JoinUnevenInputs&) = delete;
  JoinUnevenInputs& operator=(const JoinUnevenInputs&) = delete;

  // Call when this rank has no more inputs: joins the others' collectives until they are done too.
  // Throws UnevenInputsError with throw_on_early_termination, CommunicationError if a rank is lost.
  void finish();

 private:
  void leave();
  void follow();

  std::vector<std::shared_ptr<DataParallel::State>> models_;
  JoinOptions options_;
  int exceptions_;
  int process_;  // a forked child does not join its parent's ranks
  bool open_ = false;
};

}  // namespace muster
