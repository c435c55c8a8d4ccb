// The type-independent parts of nested.h.
#include "muster/values/nested.h"

#include <cstring>

#include "muster/base/errors.h"

namespace muster {
namespace nested_detail {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  return std::string(c10::toString(tensor.scalar_type())) + " " + c10::str(tensor.sizes());
}

}  // namespace

void StructureBytes::raw(void* data, size_t size) {
  if (!reading_) {
    bytes_.append(static_cast<const char*>(data), size);
    return;
  }
  if (size > bytes_.size() - at_) {
    throw FormatError("the structure of a nested value ends after " +
                      std::to_string(bytes_.size()) +
                      " bytes, in the middle of a value: do both ranks use the same type?");
  }
  std::memcpy(data, bytes_.data() + at_, size);
  at_ += size;
}

void StructureBytes::length(size_t& length) {
  uint64_t count = length;
  raw(&count, sizeof(count));
  // A list element may take no bytes at all (a tensor), so the remaining bytes do not bound the
  // length; this limit does.
  constexpr uint64_t kLengthMax = 1U << 24;
  if (reading_ && count > kLengthMax) {
    throw FormatError("the structure of a nested value has a list of " + std::to_string(count) +
                      " elements, more than the " + std::to_string(kLengthMax) +
                      " allowed: do both ranks use the same type?");
  }
  length = static_cast<size_t>(count);
}

void StructureBytes::text(std::string& text) {
  uint64_t count = text.size();
  raw(&count, sizeof(count));
  if (reading_) {
    if (count > bytes_.size() - at_) raw(nullptr, bytes_.size() - at_ + 1);
    text.resize(static_cast<size_t>(count));
  }
  raw(text.data(), text.size());
}

std::string StructureBytes::finish() const {
  if (reading_ && at_ != bytes_.size()) {
    throw FormatError("the structure of a nested value has " + std::to_string(bytes_.size()) +
                      " bytes, but its type reads " + std::to_string(at_) +
                      ": do both ranks use the same type?");
  }
  return bytes_;
}

void throw_tensor_count(size_t expected, size_t given) {
  throw std::invalid_argument("with_tensors: the structure holds " + std::to_string(expected) +
                              " tensors, " + std::to_string(given) + " were given");
}

int64_t batch_size_of(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.dim() > 0) return tensor.size(0);
  }
  throw std::invalid_argument("find_batch_size: none of the " + std::to_string(tensors.size()) +
                              " tensors has a dimension 0 to count samples in");
}

at::Tensor slice_one(const at::Tensor& tensor, int64_t begin, int64_t end) {
  return tensor.dim() == 0 ? tensor : tensor.slice(0, begin, end);
}

at::Tensor pad_input_one(const at::Tensor& tensor, int64_t batch_size, int64_t num_processes,
                         int64_t dim) {
  if (batch_size < 0 || num_processes < 1 || dim < 0 || dim >= tensor.dim()) {
    throw std::invalid_argument("pad_input_tensors: batch_size " + std::to_string(batch_size) +
                                ", num_processes " + std::to_string(num_processes) + ", dim " +
                                std::to_string(dim) + " do not fit a tensor of shape " +
                                c10::str(tensor.sizes()));
  }
  const int64_t each = batch_size / num_processes;
  const int64_t left_over = batch_size - each * num_processes;
  int64_t padding = num_processes - (each == 0 ? batch_size : each);
  if (left_over > padding && padding < 1) padding = left_over - padding;
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape[0] = batch_size + padding;
  at::Tensor padded = at::zeros(shape, tensor.options());
  padded.narrow(dim, 0, tensor.size(dim)).copy_(tensor);
  return padded;
}

at::Tensor split_one(const at::Tensor& tensor, int rank, int world_size, bool apply_padding) {
  const SplitRange range = split_range(tensor.size(0), rank, world_size);
  const at::Tensor own = tensor.slice(0, range.begin, range.end);
  if (!apply_padding || range.padding == 0 || tensor.size(0) == 0) return own;
  return at::cat({own, tensor.slice(0, tensor.size(0) - 1, tensor.size(0))});
}

std::vector<at::Tensor> concatenate_each(const std::vector<std::vector<at::Tensor>>& values,
                                         int64_t dim) {
  if (values.empty()) throw std::invalid_argument("concatenate: there is nothing to concatenate");
  std::vector<at::Tensor> joined = values[0];
  if (values.size() == 1) return joined;
  for (size_t value = 0; value < values.size(); ++value) {
    if (values[value].size() == joined.size()) continue;
    throw std::invalid_argument("concatenate: value 0 holds " + std::to_string(joined.size()) +
                                " tensors, value " + std::to_string(value) + " holds " +
                                std::to_string(values[value].size()));
  }
  for (size_t place = 0; place < joined.size(); ++place) {
    std::vector<at::Tensor> parts;
    for (const auto& tensors : values) {
      const at::Tensor& tensor = tensors[place];
      if (tensor.defined() != joined[place].defined() ||
          (tensor.defined() && tensor.dim() != values[0][place].dim())) {
        throw std::invalid_argument(
            "concatenate: tensor " + std::to_string(place) +
            " differs between the values in its number of dimensions: " +
            (tensor.defined() ? shape_of(tensor) : "undefined") + " and " +
            (values[0][place].defined() ? shape_of(values[0][place]) : "undefined"));
      }
      if (tensor.defined()) parts.push_back(tensor);
    }
    if (parts.empty()) continue;
    try {
      joined[place] = parts[0].dim() == 0 ? at::stack(parts) : at::cat(parts, dim);
    } catch (const c10::IndexError& error) {
      throw std::invalid_argument("concatenate: tensor " + std::to_string(place) + ": " +
                                  error.what_without_backtrace());
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      throw std::invalid_argument("concatenate: tensor " + std::to_string(place) + ": " +
                                  error.what_without_backtrace());
    }
  }
  return joined;
}

}  // namespace nested_detail

SplitRange split_range(int64_t length, int rank, int world_size) {
  if (length < 0 || world_size < 1 || rank < 0 || rank >= world_size) {
    throw std::invalid_argument("split_between_processes: " + std::to_string(length) +
                                " items cannot be split for rank " + std::to_string(rank) + " of " +
                                std::to_string(world_size));
  }
  const int64_t each = length / world_size;
  const int64_t extras = length % world_size;
  SplitRange range;
  range.begin = rank * each + std::min<int64_t>(rank, extras);
  range.end = range.begin + each + (rank < extras ? 1 : 0);
  range.padding = extras > 0 && rank >= extras ? 1 : 0;
  return range;
}

}  // namespace muster
