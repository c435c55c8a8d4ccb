// See tensor_source.h.
#include "checkpoint/tensor_source.h"

#include "muster/errors.h"

namespace muster {

const at::Tensor& MapSource::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw FormatError("there is no tensor '" + name + "'");
  return found->second;
}

std::vector<std::string> MapSource::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

std::optional<TensorDescription> MapSource::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  return TensorDescription{safetensors_dtype(found->second.scalar_type()),
                           found->second.sizes().vec()};
}

at::Tensor MapSource::read(const std::string& name) const {
  return at(name).detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

void MapSource::read_into(const std::string& name, const at::Tensor& target) const {
  const torch::NoGradGuard no_grad;
  at::Tensor(target).copy_(at(name));
}

TensorMap read_tensors(const TensorSource& source) {
  TensorMap tensors;
  for (const std::string& name : source.names()) tensors[name] = source.read(name);
  return tensors;
}

}  // namespace muster
