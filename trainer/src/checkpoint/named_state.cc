// See named_state.h.
#include "checkpoint/named_state.h"

#include <atomic>
#include <stdexcept>

#include "muster/base/errors.h"

namespace muster {
namespace {

std::atomic<int64_t> loads{0};

}  // namespace

int64_t module_loads() { return loads.load(); }
void count_module_load() { loads.fetch_add(1); }

TensorMap module_tensors(torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) {
    if (tensors.emplace(item.key(), item.value()).second) continue;
    throw std::invalid_argument("the module has a parameter and a buffer of one name, '" +
                                item.key() + "', and a file can hold only one: rename the buffer");
  }
  return tensors;
}

void restore_module(torch::nn::Module& module, const TensorSource& saved,
                    const std::string& where) {
  restore_tensors(module_tensors(module), saved, where);
}

void restore_tensors(const TensorMap& own, const TensorSource& saved, const std::string& where) {
  std::string problems;
  for (const auto& [name, tensor] : own) {
    const auto found = saved.find(name);
    if (!found) {
      problems += " '" + name + "' is missing;";
    } else if (at::IntArrayRef(found->shape) != tensor.sizes()) {
      problems += " '" + name + "' has a different shape;";
    }
  }
  for (const std::string& name : saved.names()) {
    if (!own.contains(name)) problems += " '" + name + "' is unknown to the model;";
  }
  if (!problems.empty()) {
    throw CheckpointError(where + " does not fit the model:" + problems.substr(0, 1000));
  }
  for (const auto& [name, tensor] : own) saved.read_into(name, tensor);
}

void restore_module(torch::nn::Module& module, const TensorMap& saved, const std::string& where) {
  restore_module(module, MapSource(saved), where);
}

}  // namespace muster
