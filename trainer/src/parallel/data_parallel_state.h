// The state of one model, shared by the files of this area. Training thread.
#pragma once

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <string>
#include <vector>

#include "muster/parallel/data_parallel.h"
#include "parallel/bounded_reducer.h"
#include "parallel/gradient_hook.h"
#include "parallel/parameter_facts.h"
#include "parallel/process_group.h"

namespace muster {

constexpr size_t kBroadcastBytes = 250 << 20;  // as torch's distributed.py

// One open JoinUnevenInputs, seen from a model of it.
struct JoinMembership {
  bool enabled = false;
  bool is_first = false;  // this model's forward announces the iteration
  // Shared by all models of the scope: the all-reduce in flight that counts the ranks still
  // training.
  std::shared_ptr<c10::intrusive_ptr<c10d::Work>> announcement;
  bool divide_by_initial_world_size = true;
  bool throw_on_early_termination = false;
};

struct DataParallel::State {
  std::shared_ptr<torch::nn::Module> module;
  ProcessGroupPtr group;  // null in a world of one
  DataParallelOptions options;
  std::vector<NamedParameter> all;         // as prepare() found them, each once
  std::vector<NamedParameter> parameters;  // those that are trained now
  std::vector<bool> sparse;                // by trained parameter
  ParameterFacts facts;                    // of all
  std::vector<at::Tensor> buffers;
  at::Device device = at::kCPU;

  bool synchronizing = true;
  // torch's require_forward_param_sync: whether the last forward was a synchronized one.
  bool buffers_are_due = true;
  bool delay_is_queued = false;  // static_graph: the first backward has begun
  int64_t forwards = 0;          // that reduce, since the reducer was created
  std::optional<DataParallelTimings> timings;
  JoinMembership join;
  bool released = false;    // the module was prepared again
  bool sharded = false;     // in any stage of ZeRO: then a step is collective
  bool by_buckets = false;  // backward reduces, here
  // By place in `all`: whether its gradient has arrived since the reduction was prepared. Autograd's
  // thread.
  std::vector<bool> has_come;
  std::vector<GradAccumulator> accumulators;
  // From a checkpoint, for the next forward: whether as many parameters are trained is known then.
  Buckets order_to_come;
  bool has_bounded_buckets = true;  // false: a checkpoint of 0.2.0 had larger ones

  // Declared last: destroyed before what they hook into, the logger first.
  std::shared_ptr<BoundedReducer> reducer;
  std::shared_ptr<c10d::Logger> logger;

  int64_t world_size() const { return group ? group->getSize() : 1; }
  bool sends_buffers() const {
    return buffers_are_due && options.broadcast_buffers && !buffers.empty();
  }
  // Whether the backward of a forward with gradients reduces them. static_graph records the graph
  // in its first backward, which must reduce even inside NoSync: the sums stay correct, because the
  // mean of a mean is the mean.
  bool reduces() const {
    return reducer && (synchronizing || (options.static_graph && !delay_is_queued));
  }
  // Whether wrap_outputs has work to do.
  bool uses_sink() const;

  // Maintains has_come, and throws on a second gradient that would not be reduced.
  static void watch_gradients(const std::shared_ptr<State>& state);
  void gradient_has_come(size_t place);
  // Prepares the next backward; `outputs` as Reducer::prepare_for_backward expects them.
  void prepare_reduction(const std::vector<at::Tensor>& outputs);

  std::vector<at::Tensor> tensors() const;
  // The initial bucket assignment, as in torch; it is rebuilt after the first backward.
  Buckets first_buckets() const;
  // Before a forward: order_to_come, if it fits.
  void take_order();
  void reset_reducer(const Buckets& buckets);
  void broadcast_from(int root, bool with_parameters, bool with_buffers) const;
  // For a forward that reduces: collects the previous iteration's timings and notifies the reducer.
  void begin_iteration();
  // Gives up the module's parameters: another owner may take them from now on.
  void release();

  // ---- changed_parameters.cc ----
  // Throws on all ranks unless they see the same changes, and can follow them. Collective.
  void require_same_changes(const std::vector<ParameterFacts::Change>& changes) const;
  // Trains and reduces what requires gradients now.
  static void train_as_marked(const std::shared_ptr<State>& state);

  // Collective if there is something to rebuild. Throws UnusedParametersError.
  void rebuild_buckets();
  // Quoted, comma-separated names; empty if the message is about something else.
  std::string unused_names(const std::string& reducer_message) const;
};

// ---- model_agreement.cc ----
// Each once, even if modules share it.
std::vector<NamedParameter> named_parameters_of(torch::nn::Module& module);
std::vector<NamedParameter> trained_of(const std::vector<NamedParameter>& parameters);
std::vector<bool> sparse_flags(torch::nn::Module& module,
                               const std::vector<NamedParameter>& parameters);
// Throws CommunicationError naming the first parameter, buffer or option that differs. Collective.
void require_same_model(const DataParallel::State& state);

// ---- collective_types.cc ----
// Throws DeviceError, naming the parameter or buffer, if the device's broadcast or all_reduce does
// not support its dtype. Not collective.
void require_collective_types(const DataParallel::State& state, bool reduces_gradients);

// ---- join.cc: additional collectives of each iteration inside JoinUnevenInputs ---- Call before
// the reducer prepares anything: tells ranks that are done that this one continues.
void announce_iteration(DataParallel::State& state);
// Tells them whether backward will reduce gradients.
void announce_reduction(const DataParallel::State& state);
// The highest rank for which `candidate` is true; -1 if there is none. Collective.
int find_common_rank(const DataParallel::State& state, bool candidate);
// Broadcasts the buffers of a rank that is still training. Collective.
void send_buffers(const DataParallel::State& state, bool candidate);

// ---- sync_batch_norm.cc ----
void attach_sync_batch_norm(torch::nn::Module& module, const ProcessGroupPtr& group);

// ---- reducer.cc ----
int64_t first_bucket_bytes(const DataParallelOptions& options);
std::shared_ptr<BoundedReducer> make_reducer(const DataParallel::State& state,
                                             const Buckets& buckets);

}  // namespace muster
