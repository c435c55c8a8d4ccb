// See tensor_source.h.
#include "checkpoint/tensor_source.h"

#include <stdexcept>

#include "checkpoint/safetensors_file.h"
#include "muster/base/errors.h"

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

void MapSource::read_range(const std::string& name, int64_t begin, const at::Tensor& target) const {
  const torch::NoGradGuard no_grad;
  const at::Tensor& whole = at(name);
  require_range(name, whole.numel(), begin, target);
  at::Tensor(target).copy_(whole.reshape({-1}).narrow(0, begin, target.numel()));
}

RangeSource::RangeSource(const TensorSource& base, RangeMap ranges, const std::string& where)
    : base_(base), ranges_(std::move(ranges)) {
  std::string problems;
  for (const auto& [name, range] : ranges_) {
    const int64_t elements = c10::multiply_integers(range.shape);
    if (range.begin < 0 || range.count < 0 || range.begin > elements ||
        range.count > elements - range.begin) {
      throw std::invalid_argument("the range of '" + name + "' exceeds its shape");
    }
    const auto found = base_.find(name);
    if (found && found->shape != range.shape) {
      problems += " '" + name + "' has shape " + c10::str(at::IntArrayRef(found->shape)) +
                  " instead of " + c10::str(at::IntArrayRef(range.shape)) + ";";
    }
  }
  if (!problems.empty()) {
    throw CheckpointError(where + " does not fit the model:" + problems.substr(0, 1000));
  }
}

std::vector<std::string> RangeSource::names() const { return base_.names(); }

std::optional<TensorDescription> RangeSource::find(const std::string& name) const {
  auto found = base_.find(name);
  const auto range = ranges_.find(name);
  if (found && range != ranges_.end()) found->shape = {range->second.count};
  return found;
}

at::Tensor RangeSource::read(const std::string& name) const {
  const auto range = ranges_.find(name);
  const auto found = base_.find(name);
  if (range == ranges_.end() || !found) return base_.read(name);
  const at::Tensor values =
      at::empty({range->second.count},
                at::TensorOptions().dtype(torch_dtype(found->dtype, "tensor '" + name + "'")));
  base_.read_range(name, range->second.begin, values);
  return values;
}

void RangeSource::read_into(const std::string& name, const at::Tensor& target) const {
  const auto range = ranges_.find(name);
  if (range == ranges_.end()) {
    base_.read_into(name, target);
    return;
  }
  if (target.sizes() != at::IntArrayRef({range->second.count})) {
    throw FormatError("the range of '" + name + "' does not have its target's shape");
  }
  base_.read_range(name, range->second.begin, target);
}

void RangeSource::read_range(const std::string& name, int64_t begin,
                             const at::Tensor& target) const {
  const auto range = ranges_.find(name);
  if (range == ranges_.end()) {
    base_.read_range(name, begin, target);
    return;
  }
  require_range(name, range->second.count, begin, target);
  base_.read_range(name, range->second.begin + begin, target);
}

TensorMap read_tensors(const TensorSource& source) {
  TensorMap tensors;
  for (const std::string& name : source.names()) tensors[name] = source.read(name);
  return tensors;
}

}  // namespace muster
