// Collectives that move whole tensors: gather, pad, broadcast.
#include "collectives/collectives.h"

#include <algorithm>
#include <cmath>

#include "muster/base/errors.h"
#include "muster/device/random_state.h"

namespace muster {
namespace {

// Why a tensor cannot be sent, or "".
std::string refused_tensors(const char* function, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_nested()) {
      return std::string(function) + " moves dense tensors only, not " +
             c10::str(tensor.toString()) + ": call to_dense() or dequantize() first";
    }
  }
  return "";
}

// The tensor, dense and contiguous, with at least one dimension.
at::Tensor plain(const at::Tensor& tensor) {
  const at::Tensor own = tensor.detach().resolve_conj().resolve_neg().contiguous();
  return own.dim() == 0 ? own.reshape({1}) : own;
}

at::Tensor padded(const at::Tensor& tensor, int64_t dim, int64_t size, const at::Scalar& pad_index,
                  bool pad_first) {
  std::vector<int64_t> shape = tensor.sizes().vec();
  const int64_t own = shape[static_cast<size_t>(dim)];
  shape[static_cast<size_t>(dim)] = size;
  at::Tensor result = at::full(shape, pad_index, tensor.options());
  result.narrow(dim, pad_first ? size - own : 0, own).copy_(tensor);
  return result;
}

// Whether the dtype can represent this value.
bool holds(at::ScalarType type, const at::Scalar& value) {
  if (value.isComplex()) return at::isComplexType(type);
  if (!at::isIntegralType(type, /*includeBool=*/true)) return true;
  if (value.isFloatingPoint()) {
    const double number = value.to<double>();
    if (std::floor(number) != number) return false;
  }
  if (type == at::kBool) return value.to<double>() == 0 || value.to<double>() == 1;
  return true;
}

}  // namespace

at::Tensor as_bytes(const at::Tensor& contiguous) {
  return contiguous.reshape({-1}).view(at::kByte);
}

std::vector<at::Tensor> Collectives::gather(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  const std::string refused = refused_tensors("gather", tensors);
  std::vector<at::Tensor> own(tensors.size());
  for (size_t i = 0; i < tensors.size() && refused.empty(); ++i) {
    if (tensors[i].defined()) own[i] = plain(tensors[i]);
  }
  const std::vector<at::Tensor> travelled =
      agree({.function = "gather", .tensors = &tensors, .refused = refused}, own);
  std::vector<at::Tensor> gathered(tensors.size());
  std::vector<std::vector<std::vector<at::Tensor>>> outputs;
  std::vector<std::vector<at::Tensor>> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!own[i].defined()) continue;
    std::vector<int64_t> shape = own[i].sizes().vec();
    shape[0] *= world_size_;
    if (!group_) {
      gathered[i] = own[i].is_alias_of(tensors[i]) ? own[i].clone() : own[i];
    } else if (!travelled.empty()) {
      gathered[i] = travelled[i].view(shape);
    } else if (own[i].numel() > 0 && gathers_by_sum(own[i])) {
      const at::Tensor bytes = all_gather_bytes("gather", own[i]);
      gathered[i] = bytes.view({-1}).view(own[i].scalar_type()).view(shape);
    } else {
      gathered[i] = at::empty(shape, own[i].options());
      if (own[i].numel() == 0) continue;
      outputs.push_back({as_bytes(gathered[i]).view({world_size_, -1}).unbind()});
      inputs.push_back({as_bytes(own[i])});
    }
  }
  communicate("gather", [&] {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (size_t i = 0; i < inputs.size(); ++i) {
      works.push_back(backend(inputs[i][0]).allgather(outputs[i], inputs[i]));
    }
    for (const auto& work : works) work->wait();
  });
  return gathered;
}

std::vector<at::Tensor> Collectives::gather_ragged(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  const char* function = "gather_ragged";
  agree({.function = function,
         .tensors = &tensors,
         .compare = Call::Compare::all_but_first,
         .refused = refused_tensors(function, tensors)});
  std::vector<at::Tensor> own(tensors.size());
  at::Tensor sizes = at::zeros({static_cast<int64_t>(tensors.size())}, at::kLong);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    own[i] = plain(tensors[i]);
    sizes.mutable_data_ptr<int64_t>()[i] = own[i].size(0);
  }
  if (!group_ || tensors.empty()) {
    for (at::Tensor& tensor : own) {
      if (tensor.defined()) tensor = tensor.clone();
    }
    return own;
  }
  const at::Tensor all = all_gather_bytes(function, sizes).view(at::kLong);
  for (size_t i = 0; i < own.size(); ++i) {
    if (!own[i].defined()) continue;
    const at::Tensor of_tensor = all.select(1, static_cast<int64_t>(i)).contiguous();
    const auto* counts = of_tensor.const_data_ptr<int64_t>();
    const int64_t largest = *std::max_element(counts, counts + world_size_);
    std::vector<int64_t> shape = own[i].sizes().vec();
    shape[0] = largest;
    at::Tensor rows = at::empty(shape, own[i].options());
    if (rows.numel() == 0) {
      shape[0] = of_tensor.sum().item<int64_t>();
      own[i] = at::empty(shape, own[i].options());
      continue;
    }
    rows.narrow(0, 0, own[i].size(0)).copy_(own[i]);
    shape.insert(shape.begin(), world_size_);
    const at::Tensor padded_rows =
        all_gather_bytes(function, rows).view({-1}).view(rows.scalar_type()).view(shape);
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < world_size_; ++rank) {
      parts.push_back(padded_rows[rank].narrow(0, 0, counts[rank]));
    }
    own[i] = at::cat(parts);
  }
  return own;
}

std::vector<at::Tensor> Collectives::pad_across_processes(const std::vector<at::Tensor>& tensors,
                                                          int64_t dim, const at::Scalar& pad_index,
                                                          bool pad_first) {
  const at::NoGradGuard no_grad;
  const char* function = "pad_across_processes";
  std::string refused = refused_tensors(function, tensors);
  at::Tensor sizes = at::zeros({static_cast<int64_t>(tensors.size())}, at::kLong);
  std::vector<int64_t> dims(tensors.size(), -1);  // -1: has no such dimension
  for (size_t i = 0; i < tensors.size() && refused.empty(); ++i) {
    if (!tensors[i].defined() || dim >= tensors[i].dim() || dim < -tensors[i].dim()) continue;
    dims[i] = dim < 0 ? dim + tensors[i].dim() : dim;
    sizes.mutable_data_ptr<int64_t>()[i] = tensors[i].size(dims[i]);
    if (!holds(tensors[i].scalar_type(), pad_index)) {
      refused = c10::str(function, ": pad_index ", pad_index, " cannot be represented in dtype ",
                         c10::getDtypeNames(tensors[i].scalar_type()).first,
                         ": use another value, or convert the tensor first");
    }
  }
  std::string options = c10::str("dim ", dim, ", pad_index ", pad_index);
  if (pad_first) options += ", pad_first";
  agree({.function = function,
         .options = options,
         .tensors = &tensors,
         .compare = Call::Compare::dimensions,
         .refused = refused});
  std::vector<at::Tensor> results = tensors;
  if (!group_ || tensors.empty()) return results;
  std::vector<at::Tensor> largest = {sizes.clone()};
  all_reduce(function, largest, c10d::ReduceOp::MAX);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t size = largest[0].const_data_ptr<int64_t>()[i];
    if (dims[i] < 0 || size == tensors[i].size(dims[i])) continue;
    results[i] = padded(tensors[i].detach(), dims[i], size, pad_index, pad_first);
  }
  return results;
}

std::vector<at::Tensor> Collectives::broadcast(const std::vector<at::Tensor>& tensors, int from) {
  const at::NoGradGuard no_grad;
  const char* function = "broadcast";
  std::string refused = refused_rank(function, from);
  if (refused.empty()) refused = refused_tensors(function, tensors);
  agree({.function = function,
         .options = "from " + std::to_string(from),
         .tensors = &tensors,
         .refused = refused});
  std::vector<at::Tensor> results = tensors;
  if (!group_) return results;
  std::vector<std::vector<at::Tensor>> contents;
  for (at::Tensor& tensor : results) {
    if (!tensor.defined()) continue;
    const at::Tensor source = rank_ == from ? plain(tensor) : at::Tensor();
    if (rank_ != from) {
      tensor =
          at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
    }
    if (tensor.numel() > 0) contents.push_back({as_bytes(rank_ == from ? source : tensor)});
  }
  c10d::BroadcastOptions options;
  options.rootRank = from;
  communicate(function, [&] {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (auto& content : contents) works.push_back(backend(content[0]).broadcast(content, options));
    for (const auto& work : works) work->wait();
  });
  return results;
}

void Collectives::synchronize_rng_states() {
  set_random_state(at::kCPU, broadcast({random_state(at::kCPU)})[0]);
  if (!device_.is_cpu()) set_random_state(device_, broadcast({random_state(device_)})[0]);
}

}  // namespace muster
