// Drives c10d::Reducer in the required order; see data_parallel.h. Training thread only.
#include "muster/parallel/data_parallel.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/distinct_tensors.h"
#include "muster/base/compat.h"
#include "parallel/call_name.h"
#include "parallel/data_parallel_factory.h"
#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

void require_sane(const DataParallelOptions& options) {
  const auto refuse = [](const char* name, int64_t value) {
    throw std::invalid_argument(std::string("DataParallelOptions::") + name + " is " +
                                std::to_string(value) + ", but must be at least 1");
  };
  if (options.bucket_cap_mb < 1) refuse("bucket_cap_mb", options.bucket_cap_mb);
  if (options.first_bucket_cap_mb.value_or(1) < 1) {
    refuse("first_bucket_cap_mb", *options.first_bucket_cap_mb);
  }
  if (options.timing_sample_rate < 1) refuse("timing_sample_rate", options.timing_sample_rate);
}

// Identity on the outputs of forward. Undefined gradients stay undefined in its backward, so that
// outputs that the loss does not use are recognized; under static_graph the first backward queues
// the delayed reduction on the engine. Python's _DDPSink.
class Sink : public torch::autograd::Function<Sink> {
 public:
  struct Model : torch::CustomClassHolder {
    std::weak_ptr<DataParallel::State> state;
  };

  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const c10::intrusive_ptr<Model>& model,
                                                at::TensorList outputs) {
    context->set_materialize_grads(false);
    context->saved_data["model"] = c10::IValue::make_capsule(model);
    torch::autograd::variable_list copies;
    // Copies, because a loss may be changed in place, but the output of an identity may not.
    for (const at::Tensor& output : outputs) copies.push_back(output.clone());
    return copies;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto model =
        c10::static_intrusive_pointer_cast<Model>(context->saved_data["model"].toCapsule());
    const auto state = model->state.lock();
    if (state && state->options.static_graph && !state->delay_is_queued) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [reducer = state->reducer] { reducer->delay_all_reduce(); });
      state->delay_is_queued = true;
    }
    gradients.insert(gradients.begin(), at::Tensor());  // of the model
    return gradients;
  }
};

}  // namespace

bool DataParallel::State::uses_sink() const {
  if (!reducer || !torch::GradMode::is_enabled()) return false;
  return options.static_graph ? !delay_is_queued : options.find_unused_parameters;
}

void DataParallel::State::watch_gradients(const std::shared_ptr<State>& state) {
  state->has_come.assign(state->all.size(), false);
  state->accumulators.resize(state->all.size());
  for (size_t i = 0; i < state->all.size(); ++i) {
    const at::Tensor& parameter = state->all[i].tensor;
    GradAccumulator& accumulator = state->accumulators[i];
    if (!parameter.requires_grad() ||
        (accumulator &&
         torch::autograd::impl::try_get_grad_accumulator(parameter) == accumulator)) {
      continue;
    }
    accumulator = after_each_gradient(parameter, [weak = std::weak_ptr(state), i] {
      if (const auto state = weak.lock()) state->gradient_has_come(i);
    });
  }
}

void DataParallel::State::release() {
  released = true;
  logger.reset();
  reducer.reset();
  accumulators.clear();
  facts = {};
}

void DataParallel::State::gradient_has_come(size_t place) {
  if (released) return;
  if (has_come[place] && reduces() && !options.static_graph) {
    throw Error("parameter '" + all[place].name +
                "' got a second gradient after one forward, which would not be averaged over the "
                "ranks: call Accelerator::backward(loss) instead of loss.backward(), or add the "
                "losses and call backward once");
  }
  has_come[place] = true;
}

void DataParallel::State::prepare_reduction(const std::vector<at::Tensor>& outputs) {
  has_come.assign(has_come.size(), false);
  reducer->prepare_for_backward(outputs);
}

std::vector<at::Tensor> DataParallel::State::tensors() const {
  std::vector<at::Tensor> tensors;
  for (const NamedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

Buckets DataParallel::State::first_buckets() const {
  // A single bucket, because the order of backward is not known yet; if buckets are never rebuilt,
  // the caps apply from the start.
  std::vector<size_t> limits = {std::numeric_limits<int64_t>::max()};
  if (options.find_unused_parameters && !options.static_graph) {
    const auto first = static_cast<size_t>(first_bucket_bytes(options));
    limits = {static_cast<size_t>(options.bucket_cap_mb) << 20};
    if (first < limits[0]) limits.insert(limits.begin(), first);
  }
  auto [buckets, bucket_limits] =
      c10d::compute_bucket_assignment_by_size(tensors(), limits, sparse);
  buckets = bounded(buckets);
  // Backward reaches the last parameters first.
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

void DataParallel::State::take_order() {
  const Buckets order = std::exchange(order_to_come, {});
  size_t count = 0, highest = 0;
  for (const auto& bucket : order) {
    count += bucket.size();
    for (const size_t index : bucket) highest = std::max(highest, index);
  }
  if (count > 0 && count == parameters.size() && highest < count) reset_reducer(order);
}

void DataParallel::State::reset_reducer(const Buckets& buckets) {
  logger.reset();
  reducer.reset();
  delay_is_queued = false;
  forwards = 0;
  has_bounded_buckets = std::all_of(buckets.begin(), buckets.end(), [](const auto& bucket) {
    return bucket.size() <= kBucketTensorsMax;
  });
  timings.reset();
  reducer = make_reducer(*this, buckets);
  reducer->set_ddp_runtime_logging_sample_rate(options.timing_sample_rate);
  logger = std::make_shared<c10d::Logger>(reducer);
  reducer->set_logger(logger);
  logger->set_construction_data_and_log(module->name(), {}, -1, options.broadcast_buffers, false,
                                        options.static_graph);
}

void DataParallel::State::broadcast_from(int root, bool with_parameters, bool with_buffers) const {
  // Below autograd's dispatch keys the copies do not count as in-place changes, which would make
  // the pending backward of an earlier forward fail.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> tensors;
  if (with_parameters) {
    for (const NamedParameter& parameter : all) {
      if (!parameter.tensor.is_meta()) tensors.push_back(parameter.tensor.detach());
    }
  }
  for (const at::Tensor& buffer : buffers) {
    if (with_buffers && !buffer.is_meta()) tensors.push_back(buffer);
  }
  if (!tensors.empty()) c10d::broadcast_coalesced(group, tensors, kBroadcastBytes, root);
}

std::string DataParallel::State::unused_names(const std::string& reducer_message) const {
  // Parses "Parameter indices which did not receive grad for rank 1: 2 3": only the reducer has the
  // list.
  const size_t line = reducer_message.find("Parameter indices which did not receive grad");
  const size_t colon = line == std::string::npos ? line : reducer_message.find(':', line);
  if (colon == std::string::npos) return "";
  std::string names;
  std::istringstream indices(reducer_message.substr(colon + 1));
  for (size_t index = 0; indices >> index && index < parameters.size();) {
    names += (names.empty() ? "'" : ", '") + parameters[index].name + "'";
  }
  return names;
}

void DataParallel::State::rebuild_buckets() {
  try {
    reducer->rebuild(first_bucket_bytes(options), has_bounded_buckets);
  } catch (const c10::Error& error) {
    const std::string names = unused_names(error.what_without_backtrace());
    if (names.empty()) throw;
    throw UnusedParametersError(
        "rank " + std::to_string(group->getRank()) +
        ": the last backward computed no gradient for the parameters " + names +
        ": let the loss depend on them, freeze them (requires_grad_(false)), or set "
        "DataParallelOptions::find_unused_parameters (static_graph if they are the same in every "
        "iteration)");
  }
}

void DataParallel::State::begin_iteration() {
  // The reducer's own rule for which iterations it times.
  if (forwards > 0 && (forwards <= 10 || forwards % options.timing_sample_rate == 0)) {
    logger->set_runtime_stats_and_log();
    const auto data = logger->get_ddp_logging_data();
    const auto seconds = [&](const char* name) {
      const auto found = data.ints_map.find(name);
      return found == data.ints_map.end() || found->second < 0
                 ? 0.0
                 : static_cast<double>(found->second) * 1e-9;
    };
    timings.reset();
    if (const double communication = seconds("backward_comm_time"); communication > 0) {
      timings = {.iteration = forwards,
                 .forward_compute = seconds("forward_compute_time"),
                 .backward_compute = seconds("backward_compute_time"),
                 .communication = communication,
                 .overlap = seconds("backward_compute_comm_overlap_time")};
    }
  }
  reducer->prepare_for_forward();
  ++forwards;
}

// Whose hooks are on a module's parameters. A handle of a model that is prepared again may live.
static void take_over(const std::shared_ptr<DataParallel::State>& state) {
  static std::unordered_map<const torch::nn::Module*, std::weak_ptr<DataParallel::State>> owners;
  std::erase_if(owners, [](const auto& known) { return known.second.expired(); });
  auto& owner = owners[state->module.get()];
  if (const auto before = owner.lock()) before->release();
  owner = state;
}

std::unique_ptr<DataParallel> make_data_parallel(torch::nn::Module& module,
                                                 const ProcessGroupPtr& group,
                                                 const DataParallelOptions& options,
                                                 Reducing reducing) {
  require_sane(options);
  auto state = std::make_shared<DataParallel::State>();
  state->module = module.shared_from_this();
  state->group = group;
  state->options = options;
  state->all = named_parameters_of(module);
  state->parameters = trained_of(state->all);
  for (const at::Tensor& buffer : distinct(module.buffers())) {
    if (buffer.defined()) state->buffers.push_back(buffer);
  }
  attach_sync_batch_norm(module, group);
  if (group) {
    take_over(state);
    const CallName name("prepare");
    require_collective_types(*state, reducing == Reducing::by_buckets);
    require_same_model(*state);
    state->broadcast_from(0, true, true);
    state->sparse = sparse_flags(module, state->parameters);
    state->by_buckets = reducing == Reducing::by_buckets;
    if (!state->parameters.empty() && state->by_buckets) {
      state->reset_reducer(state->first_buckets());
      DataParallel::State::watch_gradients(state);
    }
    state->facts.read(state->all, /*memory_is_fixed=*/false);
  }
  return std::make_unique<DataParallel>(std::move(state));
}

DataParallel::DataParallel(std::shared_ptr<State> state) : state_(std::move(state)) {}
DataParallel::~DataParallel() = default;

void DataParallel::before_forward() {
  State& state = *state_;
  if (state.released) {
    throw Error("this model was prepared again: use what the last prepare() returned");
  }
  if (!state.group) return;
  const CallName name("forward");
  const bool with_gradients = torch::GradMode::is_enabled();
  if (!with_gradients && !state.options.broadcast_buffers_in_evaluation) return;
  if (with_gradients && state.reducer) state.take_order();
  if (with_gradients && state.reduces()) state.begin_iteration();
  if (state.join.enabled) announce_iteration(state);
  // Called before every forward: the reducer asserts if it is first called after several
  // iterations. Also detects what the last backward left unreduced.
  if (with_gradients && state.reducer) state.rebuild_buckets();
  if (state.sends_buffers()) send_buffers(state, true);
  if (state.join.enabled) announce_reduction(state);
}

void DataParallel::after_forward(const std::vector<at::Tensor>& outputs) {
  State& state = *state_;
  if (!state.group) return;
  const bool with_gradients = torch::GradMode::is_enabled();
  if (!with_gradients && !state.options.broadcast_buffers_in_evaluation) return;
  state.buffers_are_due = with_gradients && (state.synchronizing || state.reduces());
  if (!state.buffers_are_due || !state.reducer) return;
  if (!state.options.find_unused_parameters || state.options.static_graph) {
    state.prepare_reduction({});
    return;
  }
  std::vector<at::Tensor> defined;
  for (const at::Tensor& output : outputs) {
    if (output.defined()) defined.push_back(output);
  }
  if (defined.empty()) {
    throw std::invalid_argument(
        "after_forward: find_unused_parameters needs the tensors that forward returned");
  }
  state.prepare_reduction(defined);
}

void DataParallel::before_backward(const at::Tensor& loss) {
  State& state = *state_;
  if (!state.reduces() || std::none_of(state.has_come.begin(), state.has_come.end(),
                                       [](bool has_come) { return has_come; })) {
    return;
  }
  if (state.options.static_graph || state.join.enabled) {
    throw Error(
        std::string("a second backward after one forward cannot be averaged over the ranks ") +
        (state.join.enabled ? "inside JoinUnevenInputs" : "under static_graph") +
        ": add the losses and call backward once");
  }
  state.begin_iteration();
  state.rebuild_buckets();
  state.prepare_reduction(state.options.find_unused_parameters ? std::vector{loss}
                                                               : std::vector<at::Tensor>{});
}

bool DataParallel::needs_outputs() const { return state_->uses_sink(); }

std::vector<at::Tensor> DataParallel::wrap_outputs(std::vector<at::Tensor> outputs) {
  if (!state_->uses_sink()) return outputs;
  std::vector<size_t> places;
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].grad_fn()) continue;
    places.push_back(i);
    inputs.push_back(outputs[i]);
  }
  if (inputs.empty()) return outputs;
  auto model = c10::make_intrusive<Sink::Model>();
  model->state = state_;
  const auto wrapped = Sink::apply(model, at::TensorList(inputs));
  for (size_t i = 0; i < places.size(); ++i) outputs[places[i]] = wrapped[i];
  return outputs;
}

void DataParallel::set_synchronizing(bool synchronizing) { state_->synchronizing = synchronizing; }
bool DataParallel::synchronizing() const { return state_->synchronizing; }
torch::nn::Module& DataParallel::module() const { return *state_->module; }
const DataParallelOptions& DataParallel::options() const { return state_->options; }
int64_t DataParallel::world_size() const { return state_->world_size(); }

void DataParallel::zero_grad() {
  for (const NamedParameter& parameter : state_->parameters) {
    at::Tensor(parameter.tensor).mutable_grad().reset();
  }
}

void DataParallel::sync_buffers() {
  if (state_->group && !state_->buffers.empty()) state_->broadcast_from(0, false, true);
}

std::optional<DataParallelTimings> DataParallel::last_timings() const { return state_->timings; }

std::vector<std::vector<int64_t>> DataParallel::bucket_order() {
  if (!state_->reducer) return {};
  if (!state_->order_to_come.empty()) {
    std::vector<std::vector<int64_t>> order;
    for (const auto& bucket : state_->order_to_come)
      order.emplace_back(bucket.begin(), bucket.end());
    return order;
  }
  // The order that the next forward will use: it is rebuilt once, after the first iteration.
  state_->rebuild_buckets();
  std::unordered_map<c10::TensorImpl*, int64_t> index_of;
  for (size_t i = 0; i < state_->parameters.size(); ++i) {
    index_of[state_->parameters[i].tensor.unsafeGetTensorImpl()] = static_cast<int64_t>(i);
  }
  std::vector<std::vector<int64_t>> order;
  for (const c10d::GradBucket& bucket : state_->reducer->get_grad_buckets(false)) {
    std::vector<int64_t> indices;
    for (const at::Tensor& parameter : bucket.getParameters()) {
      indices.push_back(index_of.at(parameter.unsafeGetTensorImpl()));
    }
    order.push_back(std::move(indices));
  }
  return order;
}

void DataParallel::set_bucket_order(const std::vector<std::vector<int64_t>>& order) {
  State& state = *state_;
  if (!state.by_buckets || order.empty()) return;
  Buckets buckets;
  std::vector<bool> seen(state.all.size(), false);
  for (const auto& indices : order) {
    auto& bucket = buckets.emplace_back();
    for (const int64_t index : indices) {
      if (index < 0 || index >= static_cast<int64_t>(seen.size()) || seen[index]) {
        throw CheckpointError("the bucket order names parameter " + std::to_string(index) +
                              ", which is unknown to this model or listed twice");
      }
      seen[index] = true;
      bucket.push_back(static_cast<size_t>(index));
    }
  }
  state.order_to_come = std::move(buckets);
}

}  // namespace muster
