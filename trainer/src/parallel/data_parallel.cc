// The order of calls around c10d::Reducer; see data_parallel.h. Training thread only.
#include "muster/data_parallel.h"

#include <algorithm>
#include <sstream>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "parallel/data_parallel_factory.h"
#include "muster/compat.h"
#include "muster/errors.h"

namespace muster {
namespace {

using Buckets = std::vector<std::vector<size_t>>;

constexpr size_t kBroadcastBytes = 250 << 20;  // as torch's distributed.py

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// Parameters that train, each once even when modules share it.
std::vector<NamedParameter> trained_parameters(torch::nn::Module& module) {
  std::vector<NamedParameter> parameters;
  std::unordered_set<c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    parameters.push_back({item.key(), item.value()});
  }
  return parameters;
}

// Sparse gradients come from embeddings that ask for them.
std::vector<bool> sparse_flags(torch::nn::Module& module,
                               const std::vector<NamedParameter>& parameters) {
  std::unordered_set<c10::TensorImpl*> sparse;
  for (const auto& child : module.modules()) {
    if (const auto* embedding = child->as<torch::nn::Embedding>()) {
      if (embedding->options.sparse()) sparse.insert(embedding->weight.unsafeGetTensorImpl());
    }
    if (const auto* bag = child->as<torch::nn::EmbeddingBag>()) {
      if (bag->options.sparse()) sparse.insert(bag->weight.unsafeGetTensorImpl());
    }
  }
  std::vector<bool> flags;
  for (const NamedParameter& parameter : parameters) {
    flags.push_back(sparse.contains(parameter.tensor.unsafeGetTensorImpl()));
  }
  return flags;
}

// One line per parameter: name, dtype, shape.
std::vector<std::string> describe(const std::vector<NamedParameter>& parameters) {
  std::vector<std::string> lines;
  for (const NamedParameter& parameter : parameters) {
    std::ostringstream line;
    line << "'" << parameter.name << "' " << parameter.tensor.scalar_type() << " "
         << parameter.tensor.sizes();
    lines.push_back(line.str());
  }
  return lines;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// c10d's own check says only that something differs, and hangs on some differences.
void require_same_model(const ProcessGroupPtr& group,
                        const std::vector<NamedParameter>& parameters) {
  std::string own;
  for (const std::string& line : describe(parameters)) own += line + "\n";
  const std::vector<std::string> all = all_gather_strings(group, own);
  const std::vector<std::string> first = lines_of(all[0]);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const std::vector<std::string> other = lines_of(all[rank]);
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string here = i < other.size() ? other[i] : "none";
      const std::string there = i < first.size() ? first[i] : "none";
      if (here == there) continue;
      throw CommunicationError("the ranks built different models: parameter " + std::to_string(i) +
                               " is " + here + " on rank " + std::to_string(rank) + " and " +
                               there + " on rank 0: build the same model on all ranks");
    }
  }
}

// A template, so that the branch that a release lacks is never compiled.
template <typename Reducer>
std::unique_ptr<Reducer> make_reducer(const std::vector<at::Tensor>& parameters,
                                      const Buckets& buckets, const ProcessGroupPtr& group,
                                      const std::vector<bool>& sparse,
                                      const std::unordered_map<size_t, std::string>& names,
                                      const DataParallelOptions& options) {
  const int64_t cap = options.bucket_cap_mb << 20;
  const int64_t first_cap = options.first_bucket_cap_mb << 20;
  using Names = std::unordered_map<size_t, std::string>;
  constexpr bool kHasCapList =
      std::is_constructible_v<Reducer, std::vector<at::Tensor>, Buckets, ProcessGroupPtr,
                              std::vector<bool>, int64_t, bool, bool, Names, int64_t, bool, bool,
                              std::vector<int64_t>>;
  if constexpr (kHasCapList) {
    return std::make_unique<Reducer>(parameters, buckets, group, sparse, cap, false,
                                     options.gradient_as_bucket_view, names, first_cap, false,
                                     false, std::vector<int64_t>{});
  } else {
    return std::make_unique<Reducer>(parameters, buckets, group, sparse, cap, false,
                                     options.gradient_as_bucket_view, names, first_cap, false,
                                     false);
  }
}

}  // namespace

struct DataParallel::State {
  std::shared_ptr<torch::nn::Module> module;
  ProcessGroupPtr group;
  DataParallelOptions options;
  std::vector<NamedParameter> parameters;
  std::vector<bool> sparse;
  std::vector<at::Tensor> buffers;
  bool synchronizing = true;
  std::unique_ptr<c10d::Reducer> reducer;  // last: destroyed before what it hooks into

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> tensors;
    for (const NamedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
    return tensors;
  }

  Buckets first_buckets() const {
    const std::vector<size_t> limits = {static_cast<size_t>(options.first_bucket_cap_mb) << 20,
                                        static_cast<size_t>(options.bucket_cap_mb) << 20};
    auto [buckets, bucket_limits] =
        c10d::compute_bucket_assignment_by_size(tensors(), limits, sparse);
    // Backward meets the last parameters first.
    std::reverse(buckets.begin(), buckets.end());
    return buckets;
  }

  void reset_reducer(const Buckets& buckets) {
    reducer.reset();
    std::unordered_map<size_t, std::string> names;
    for (size_t i = 0; i < parameters.size(); ++i) names[i] = parameters[i].name;
    reducer = make_reducer<c10d::Reducer>(tensors(), buckets, group, sparse, names, options);
  }

  void broadcast_initial_state() const {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> state;
    for (const auto& item : module->named_parameters()) state.push_back(item.value().detach());
    for (const at::Tensor& buffer : buffers) state.push_back(buffer.detach());
    if (!state.empty()) c10d::broadcast_coalesced(group, state, kBroadcastBytes);
  }
};

std::unique_ptr<DataParallel> make_data_parallel(torch::nn::Module& module,
                                                 const ProcessGroupPtr& group,
                                                 const DataParallelOptions& options) {
  auto state = std::make_unique<DataParallel::State>();
  state->module = module.shared_from_this();
  state->group = group;
  state->options = options;
  state->parameters = trained_parameters(module);
  state->buffers = module.buffers();
  if (group) {
    require_same_model(group, state->parameters);
    state->broadcast_initial_state();
    if (!state->parameters.empty()) {
      state->sparse = sparse_flags(module, state->parameters);
      state->reset_reducer(state->first_buckets());
    }
  }
  return std::make_unique<DataParallel>(std::move(state));
}

DataParallel::DataParallel(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataParallel::~DataParallel() = default;

void DataParallel::before_forward() {
  State& state = *state_;
  if (!state.reducer || !torch::GradMode::is_enabled()) return;
  if (state.synchronizing) state.reducer->prepare_for_forward();
  // Must be asked before every forward: when it is first asked after several iterations it asserts.
  state.reducer->rebuild_buckets();
  if (state.synchronizing && state.options.broadcast_buffers && !state.buffers.empty()) {
    const torch::NoGradGuard no_grad;
    c10d::broadcast_coalesced(state.group, state.buffers, kBroadcastBytes);
  }
}

void DataParallel::after_forward() {
  State& state = *state_;
  if (!state.reducer || !torch::GradMode::is_enabled() || !state.synchronizing) return;
  state.reducer->prepare_for_backward({});
}

void DataParallel::set_synchronizing(bool synchronizing) { state_->synchronizing = synchronizing; }
bool DataParallel::synchronizing() const { return state_->synchronizing; }
torch::nn::Module& DataParallel::module() const { return *state_->module; }

std::vector<std::vector<int64_t>> DataParallel::bucket_order() {
  if (!state_->reducer) return {};
  // The order that the next forward would use: after the first iteration it is rebuilt once.
  state_->reducer->rebuild_buckets();
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
  if (!state_->reducer || order.empty()) return;
  Buckets buckets;
  std::vector<bool> seen(state_->parameters.size(), false);
  size_t count = 0;
  for (const auto& indices : order) {
    auto& bucket = buckets.emplace_back();
    for (const int64_t index : indices) {
      if (index < 0 || index >= static_cast<int64_t>(seen.size()) || seen[index]) {
        throw CheckpointError("the bucket order names parameter " + std::to_string(index) +
                              ", which this model does not have once");
      }
      seen[index] = true;
      ++count;
      bucket.push_back(static_cast<size_t>(index));
    }
  }
  if (count != seen.size()) {
    throw CheckpointError("the bucket order has " + std::to_string(count) +
                          " parameters, the model " + std::to_string(seen.size()));
  }
  state_->reset_reducer(buckets);
}

}  // namespace muster
