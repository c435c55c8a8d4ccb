// Checks that all ranks have the same parameters, buffers and options. Training thread.
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "muster/base/errors.h"
#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

// "'head.weight' Float [3, 24]", as streams write it: there may be very many.
std::string line_of(const std::string& name, const at::Tensor& tensor) {
  std::string line = "'" + name + "' " + c10::toString(tensor.scalar_type()) + " [";
  for (size_t i = 0; i < tensor.sizes().size(); ++i) {
    line += (i == 0 ? "" : ", ") + std::to_string(tensor.sizes()[i]);
  }
  return line + "]";
}

// One line per parameter and buffer: kind, index, name, dtype, shape. The last line has the options
// that the reducers must agree on.
std::vector<std::string> describe(const DataParallel::State& state) {
  std::vector<std::string> lines;
  for (const NamedParameter& parameter : state.parameters) {
    lines.push_back(line_of(parameter.name, parameter.tensor));
    // Gradients are averaged in memory order, so strides matter.
    if (!parameter.tensor.is_contiguous()) {
      lines.back() += " with strides " + c10::str(parameter.tensor.strides());
    }
  }
  for (const NamedParameter& parameter : state.all) {
    if (parameter.tensor.requires_grad()) continue;
    lines.push_back("frozen " + line_of(parameter.name, parameter.tensor));
  }
  for (const auto& item : state.module->named_buffers()) {
    if (!item.value().defined()) continue;
    lines.push_back("buffer " + line_of(item.key(), item.value()));
  }
  const DataParallelOptions& options = state.options;
  std::ostringstream line;
  line << "the options bucket_cap_mb " << options.bucket_cap_mb << ", first bucket "
       << first_bucket_bytes(options) << " bytes, find_unused_parameters "
       << options.find_unused_parameters << ", static_graph " << options.static_graph
       << ", gradient_compression " << static_cast<int>(options.gradient_compression)
       << ", broadcast_buffers " << options.broadcast_buffers
       << options.broadcast_buffers_in_evaluation << ", skip_all_reduce_unused_params "
       << options.skip_all_reduce_unused_params;
  lines.push_back(line.str());
  return lines;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<NamedParameter> named_parameters_of(torch::nn::Module& module) {
  std::vector<NamedParameter> parameters;
  std::unordered_set<c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().defined()) continue;
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    parameters.push_back({item.key(), item.value()});
  }
  return parameters;
}

std::vector<NamedParameter> trained_of(const std::vector<NamedParameter>& parameters) {
  std::vector<NamedParameter> trained;
  for (const NamedParameter& parameter : parameters) {
    if (parameter.tensor.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

// Sparse gradients come from embeddings with sparse = true.
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

// c10d's own check only reports that something differs, and hangs on some differences.
void require_same_model(const DataParallel::State& state) {
  std::string own;
  for (const std::string& line : describe(state)) own += line + "\n";
  const std::vector<std::string> all = all_gather_strings(state.group, own);
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

}  // namespace muster
