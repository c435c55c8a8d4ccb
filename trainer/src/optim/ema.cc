#include "muster/optim/ema.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

#include "muster/base/errors.h"

namespace muster {

ExponentialMovingAverage::Source ExponentialMovingAverage::of_module(torch::nn::Module& module,
                                                                     bool use_buffers) {
  Source source;
  std::unordered_set<c10::TensorImpl*> seen;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_floating_point()) return;
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) return;
    source.names.push_back(name);
    source.tensors.push_back(tensor);
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  if (!use_buffers) return source;
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
  return source;
}

ExponentialMovingAverage::Source ExponentialMovingAverage::of_list(
    const std::vector<at::Tensor>& parameters) {
  Source source;
  std::unordered_set<c10::TensorImpl*> seen;
  for (const at::Tensor& tensor : parameters) {
    if (!tensor.defined() || !tensor.is_floating_point()) {
      throw std::invalid_argument("only floating-point tensors can be averaged; number " +
                                  std::to_string(source.tensors.size()) +
                                  " in the list is not one");
    }
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    source.names.push_back(std::to_string(source.tensors.size()));
    source.tensors.push_back(tensor);
  }
  return source;
}

ExponentialMovingAverage::ExponentialMovingAverage(torch::nn::Module& module,
                                                   const EmaOptions& options)
    : ExponentialMovingAverage(of_module(module, options.use_buffers), options) {}

ExponentialMovingAverage::ExponentialMovingAverage(const std::vector<at::Tensor>& parameters,
                                                   const EmaOptions& options)
    : ExponentialMovingAverage(of_list(parameters), options) {}

ExponentialMovingAverage::ExponentialMovingAverage(Source source, const EmaOptions& options)
    : options_(options), source_(std::move(source)) {
  if (!(options.decay >= 0 && options.decay <= 1)) {
    throw std::invalid_argument("decay is " + std::to_string(options.decay) +
                                ", but must be between 0 and 1");
  }
  if (source_.tensors.empty()) {
    throw std::invalid_argument("there is no floating-point tensor to average");
  }
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& tensor : source_.tensors) average_.push_back(tensor.detach().clone());
}

double ExponentialMovingAverage::next_decay() const {
  const int64_t n = num_updates_ + 1 - options_.update_after;  // averaging updates, from 1
  if (n <= 0) return 0;
  if (!options_.warmup) return options_.decay;
  return std::min(options_.decay, static_cast<double>(1 + n) / static_cast<double>(10 + n));
}

void ExponentialMovingAverage::update() {
  require_outside_scope("update()");
  const torch::NoGradGuard no_grad;
  // The model may have moved since.
  for (size_t i = 0; i < average_.size(); ++i) {
    if (average_[i].device() != source_.tensors[i].device()) {
      average_[i] = average_[i].to(source_.tensors[i].device());
    }
  }
  const bool copies = num_updates_ < options_.update_after;
  if (copies) {
    at::_foreach_copy_(average_, source_.tensors);
  } else {
    at::_foreach_lerp_(average_, source_.tensors, 1 - next_decay());
  }
  ++num_updates_;
}

void ExponentialMovingAverage::require_outside_scope(const char* what) const {
  if (!exchanged_) return;
  throw Error(std::string(what) +
              " while average_parameters() is active: the average is in the module; end the scope "
              "first");
}

// Swaps tensor by tensor, so that only one extra copy exists at a time.
void ExponentialMovingAverage::exchange() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < average_.size(); ++i) {
    const at::Tensor weights = source_.tensors[i].detach().clone();
    source_.tensors[i].copy_(average_[i]);
    average_[i].copy_(weights);
  }
  exchanged_ = !exchanged_;
}

ExponentialMovingAverage::Scope::Scope(ExponentialMovingAverage& average) : average_(average) {
  average.require_outside_scope("average_parameters()");
  average.exchange();
}

ExponentialMovingAverage::Scope::~Scope() { average_.exchange(); }

void ExponentialMovingAverage::copy_to(const Source& target) const {
  require_outside_scope("copy_to()");
  if (target.tensors.size() != average_.size()) {
    throw std::invalid_argument("the average has " + std::to_string(average_.size()) +
                                " tensors, but the target has " +
                                std::to_string(target.tensors.size()));
  }
  for (size_t i = 0; i < average_.size(); ++i) {
    if (target.tensors[i].sizes() != average_[i].sizes()) {
      throw std::invalid_argument("the average of " + source_.names[i] + " has the shape " +
                                  c10::str(average_[i].sizes()) + ", but the target has " +
                                  c10::str(target.tensors[i].sizes()));
    }
  }
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < average_.size(); ++i) {
    at::Tensor tensor = target.tensors[i];
    tensor.copy_(average_[i]);
  }
}

void ExponentialMovingAverage::copy_to(const std::vector<at::Tensor>& parameters) const {
  copy_to(of_list(parameters));
}

void ExponentialMovingAverage::copy_to(torch::nn::Module& module) const {
  copy_to(of_module(module, options_.use_buffers));
}

TensorMap ExponentialMovingAverage::state() const {
  require_outside_scope("state()");
  TensorMap state = {{"num_updates", torch::tensor(num_updates_, at::kLong)}};
  for (size_t i = 0; i < average_.size(); ++i) {
    state["average/" + source_.names[i]] = average_[i];
  }
  return state;
}

void ExponentialMovingAverage::load_state(const TensorMap& state) {
  require_outside_scope("load_state()");
  std::string problems;
  if (!state.contains("num_updates")) problems += " 'num_updates' is missing;";
  for (size_t i = 0; i < average_.size(); ++i) {
    const std::string name = "average/" + source_.names[i];
    const auto found = state.find(name);
    if (found == state.end()) {
      problems += " '" + name + "' is missing;";
    } else if (found->second.sizes() != average_[i].sizes()) {
      problems += " '" + name + "' has a different shape;";
    }
  }
  if (problems.empty() && state.size() != average_.size() + 1) {
    problems = " it has tensors that this model does not have;";
  }
  if (!problems.empty()) {
    throw CheckpointError("the saved average does not fit the model:" + problems.substr(0, 1000));
  }
  const torch::NoGradGuard no_grad;
  num_updates_ = state.at("num_updates").item<int64_t>();
  for (size_t i = 0; i < average_.size(); ++i) {
    average_[i].copy_(state.at("average/" + source_.names[i]));
  }
}

}  // namespace muster
