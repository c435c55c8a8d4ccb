// Values that hold tensors: what a batch, a model's output or a metric may look like.
//
// Nested is an at::Tensor, or one of these over Nested values: std::vector, std::array,
// std::optional, std::map<std::string, …>, std::pair, std::tuple, torch::data::Example, and any
// struct that lists its parts:
//
//   struct Batch {
//     at::Tensor images, labels;
//     std::vector<std::string> names;
//     auto fields() { return std::tie(images, labels, names); }
//   };
//
// A pair, a tuple, an example or a struct may also have plain parts without tensors (numbers,
// enums, strings, and vectors, optionals and maps of them): they are carried along unchanged.
// Hash maps are no Nested: their order could differ between ranks.
//
// The tensors of a value have a fixed order: of elements in a sequence, of sorted keys in a map, of
// fields() in a struct. Undefined tensors keep their place and pass through every function here
// unchanged. Functions return new values that share storage with the old ones wherever a tensor
// need not be copied. No state, no collective: any thread.
// Source of names and meanings: accelerate/utils/operations.py (Accelerate 1.15); differences are
// said at each function.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/values/nested_parts.h"

namespace muster {

template <typename T>
concept Nested = nested_detail::Parts<std::remove_cvref_t<T>>::nested;

// Calls f with each tensor in order, also with undefined ones: f(at::Tensor&), which may assign it,
// or f(const at::Tensor&) when the value is constant.
template <Nested T, typename F>
void visit_tensors(T& value, F&& f) {
  nested_detail::Parts<std::remove_const_t<T>>::visit(value, f);
}

// The tensors in order, undefined ones included.
template <Nested T>
std::vector<at::Tensor> flatten_tensors(const T& value) {
  std::vector<at::Tensor> tensors;
  visit_tensors(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

// A value of the structure of `like` (its keys, lengths and plain parts) with these tensors: the
// inverse of flatten_tensors. Throws std::invalid_argument when their number differs.
template <Nested T>
T with_tensors(const T& like, std::vector<at::Tensor> tensors) {
  T value = like;
  size_t used = 0;
  visit_tensors(value, [&](at::Tensor& tensor) {
    if (used < tensors.size()) tensor = std::move(tensors[used]);
    ++used;
  });
  if (used != tensors.size()) nested_detail::throw_tensor_count(used, tensors.size());
  return value;
}

// The value with every defined tensor replaced by f(tensor). Accelerate's recursively_apply.
template <Nested T, typename F>
T map_tensors(const T& value, F&& f) {
  T mapped = value;
  visit_tensors(mapped, [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = f(std::as_const(tensor));
  });
  return mapped;
}

// The size of the first tensor's dimension 0. Tensors without dimensions are passed over
// (Accelerate fails on them). Throws std::invalid_argument when no tensor is left.
template <Nested T>
int64_t find_batch_size(const T& value) {
  return nested_detail::batch_size_of(flatten_tensors(value));
}

// Elements [begin, end) of dimension 0 of each tensor, as views; bounds beyond the end are clamped
// and negative ones count from it, as in Python. Tensors without dimensions stay whole (Accelerate
// fails on them).
template <Nested T>
T slice_tensors(const T& value, int64_t begin, int64_t end) {
  return map_tensors(value, [&](const at::Tensor& tensor) {
    return nested_detail::slice_one(tensor, begin, end);
  });
}

// The tensors of equal place joined along `dim`, in the order of the values; tensors without
// dimensions become one of shape [number of values]. Plain parts are the first value's. One value
// is returned as it is. Throws std::invalid_argument when there are none, when their structures
// differ, or when shapes do not fit, naming the tensor.
template <Nested T>
T concatenate(const std::vector<T>& values, int64_t dim = 0) {
  std::vector<std::vector<at::Tensor>> tensors;
  for (const T& value : values) tensors.push_back(flatten_tensors(value));
  std::vector<at::Tensor> joined = nested_detail::concatenate_each(tensors, dim);
  return with_tensors(values.front(), std::move(joined));
}

// The value with its tensors on `device`. With non_blocking, copies from pinned memory to a device
// run on its current stream while this thread goes on.
template <Nested T>
T send_to_device(const T& value, at::Device device, bool non_blocking = false) {
  return map_tensors(value,
                     [&](const at::Tensor& tensor) { return tensor.to(device, non_blocking); });
}

// The value with float16 and bfloat16 tensors as float32; others unchanged.
template <Nested T>
T convert_to_fp32(const T& value) {
  return map_tensors(value, [](const at::Tensor& tensor) {
    const bool is_half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
    return is_half ? tensor.to(at::kFloat) : tensor;
  });
}

// Everything of a value but its tensors, as bytes for the same program on another rank: lengths,
// keys, which optionals have a value, and the plain parts. The type must be default-constructible.
template <Nested T>
std::string nested_structure(const T& value) {
  T copy = value;
  nested_detail::StructureBytes bytes;
  nested_detail::Parts<T>::structure(copy, bytes);
  return bytes.finish();
}

// A value of that structure whose tensors are undefined: the `like` of with_tensors on a rank that
// has only received. Throws muster::FormatError when the bytes are not the structure of a T.
template <Nested T>
T nested_from_structure(std::string structure) {
  T value{};
  nested_detail::StructureBytes bytes(std::move(structure));
  nested_detail::Parts<T>::structure(value, bytes);
  bytes.finish();
  return value;
}

// Each tensor with zeros appended to dimension 0 as Accelerate's function of this name does it;
// `dim` names the dimension the old values are placed along there. batch_size is the size of
// dimension 0 now; afterwards it is, with n = num_processes, batch_size + n - batch_size / n (n,
// when batch_size < n; batch_size + batch_size % n - that difference, when the difference is not
// positive): not always a multiple of n. split_between_processes(…, apply_padding) is the even
// split.
template <Nested T>
T pad_input_tensors(const T& value, int64_t batch_size, int64_t num_processes, int64_t dim = 0) {
  return map_tensors(value, [&](const at::Tensor& tensor) {
    return nested_detail::pad_input_one(tensor, batch_size, num_processes, dim);
  });
}

// The half-open range of `length` items that a rank gets: as even as possible, the first ranks one
// more. Throws std::invalid_argument unless 0 <= rank < world_size and length >= 0.
struct SplitRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t padding = 0;  // items short of what rank 0 gets: 0 or 1
};
SplitRange split_range(int64_t length, int rank, int world_size);

// This rank's items of a list. With apply_padding every rank gets equally many: the list's last
// item is repeated (drop the surplus after a gather). An empty list stays empty.
template <typename T>
std::vector<T> split_between_processes(const std::vector<T>& items, int rank, int world_size,
                                       bool apply_padding = false) {
  const SplitRange range = split_range(static_cast<int64_t>(items.size()), rank, world_size);
  std::vector<T> own(items.begin() + range.begin, items.begin() + range.end);
  if (apply_padding && !items.empty()) {
    own.insert(own.end(), static_cast<size_t>(range.padding), items.back());
  }
  return own;
}

// As above for dimension 0 of every tensor of a value that is no list; the tensors stay on their
// device. All must have the same size, else std::invalid_argument (also for tensors without
// dimensions). A map of lists is the overload below.
template <Nested T>
T split_between_processes(const T& value, int rank, int world_size, bool apply_padding = false) {
  const int64_t length = find_batch_size(value);
  return map_tensors(value, [&](const at::Tensor& tensor) {
    if (tensor.dim() == 0 || tensor.size(0) != length) {
      throw std::invalid_argument(
          "split_between_processes: all tensors must have the same size in dimension 0; the first "
          "has " +
          std::to_string(length) + ", another the shape " + c10::str(tensor.sizes()));
    }
    return nested_detail::split_one(tensor, rank, world_size, apply_padding);
  });
}

template <typename T>
std::map<std::string, std::vector<T>> split_between_processes(
    const std::map<std::string, std::vector<T>>& lists, int rank, int world_size,
    bool apply_padding = false) {
  std::map<std::string, std::vector<T>> own;
  for (const auto& [name, list] : lists) {
    if (list.size() != lists.begin()->second.size()) {
      throw std::invalid_argument(
          "split_between_processes: all lists must have the same length; '" + lists.begin()->first +
          "' has " + std::to_string(lists.begin()->second.size()) + " items, '" + name + "' has " +
          std::to_string(list.size()));
    }
    own[name] = split_between_processes(list, rank, world_size, apply_padding);
  }
  return own;
}

}  // namespace muster
