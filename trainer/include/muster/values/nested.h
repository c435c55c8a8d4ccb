// Values that hold tensors: the possible types of a batch, a model's output or a metric.
//
// A Nested type is at::Tensor, one of these containers of Nested types: std::vector, std::array,
// std::optional, std::map<std::string, …>, std::pair, std::tuple, torch::data::Example, or any
// struct that lists its fields:
//
//   struct Batch {
//     at::Tensor images, labels;
//     std::vector<std::string> names;
//     auto fields() { return std::tie(images, labels, names); }
//   };
//
// A pair, tuple, example or struct may also have plain parts without tensors (numbers, enums,
// strings, and vectors, optionals and maps of them), which are copied unchanged. Hash maps are not
// Nested: their order could differ between ranks.
//
// The tensors of a value have a fixed order: element order in a sequence, sorted keys in a map, the
// order of fields() in a struct. Undefined tensors keep their positions and pass through every
// function unchanged. Functions return new values that share storage with the old ones unless a
// tensor must be copied. Stateless and not collective: any thread. Source of names and semantics:
// accelerate/utils/operations.py (Accelerate 1.15); differences are noted at each function.
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

// Calls f with each tensor in order, including undefined ones: f(at::Tensor&), which may assign to
// it, or f(const at::Tensor&) if the value is const.
template <Nested T, typename F>
void visit_tensors(T& value, F&& f) {
  nested_detail::Parts<std::remove_const_t<T>>::visit(value, f);
}

// The tensors in order, including undefined ones.
template <Nested T>
std::vector<at::Tensor> flatten_tensors(const T& value) {
  std::vector<at::Tensor> tensors;
  visit_tensors(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

// A value with the structure of `like` (its keys, lengths and plain parts) and these tensors: the
// inverse of flatten_tensors. Throws std::invalid_argument if the number of tensors differs.
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

// The size of the first tensor's dimension 0. 0-d tensors are skipped (Accelerate fails on them).
// Throws std::invalid_argument if no tensor is left.
template <Nested T>
int64_t find_batch_size(const T& value) {
  return nested_detail::batch_size_of(flatten_tensors(value));
}

// Elements [begin, end) of dimension 0 of each tensor, as views; bounds past the end are clamped
// and negative ones count from the end, as in Python. 0-d tensors are unchanged (Accelerate fails
// on them).
template <Nested T>
T slice_tensors(const T& value, int64_t begin, int64_t end) {
  return map_tensors(value, [&](const at::Tensor& tensor) {
    return nested_detail::slice_one(tensor, begin, end);
  });
}

// Concatenates the corresponding tensors along `dim`, in the order of the values; 0-d tensors
// become one of shape [number of values]. Plain parts are the first value's. A single value is
// returned unchanged. Throws std::invalid_argument if there are no values, if their structures
// differ, or if shapes do not match, naming the tensor.
template <Nested T>
T concatenate(const std::vector<T>& values, int64_t dim = 0) {
  std::vector<std::vector<at::Tensor>> tensors;
  for (const T& value : values) tensors.push_back(flatten_tensors(value));
  std::vector<at::Tensor> joined = nested_detail::concatenate_each(tensors, dim);
  return with_tensors(values.front(), std::move(joined));
}

// The value with its tensors on `device`. With non_blocking, copies from pinned memory run on the
// device's current stream while this thread continues.
template <Nested T>
T send_to_device(const T& value, at::Device device, bool non_blocking = false) {
  return map_tensors(value,
                     [&](const at::Tensor& tensor) { return tensor.to(device, non_blocking); });
}

// The value with float16 and bfloat16 tensors converted to float32; others unchanged.
template <Nested T>
T convert_to_fp32(const T& value) {
  return map_tensors(value, [](const at::Tensor& tensor) {
    const bool is_half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
    return is_half ? tensor.to(at::kFloat) : tensor;
  });
}

// Everything in a value except its tensors, as bytes for the same program on another rank: lengths,
// keys, which optionals are set, and the plain parts. The type must be default-constructible.
template <Nested T>
std::string nested_structure(const T& value) {
  T copy = value;
  nested_detail::StructureBytes bytes;
  nested_detail::Parts<T>::structure(copy, bytes);
  return bytes.finish();
}

// A value of that structure with undefined tensors: the `like` of with_tensors on a receiving rank.
// Throws muster::FormatError if the bytes are not the structure of a T.
template <Nested T>
T nested_from_structure(std::string structure) {
  T value{};
  nested_detail::StructureBytes bytes(std::move(structure));
  nested_detail::Parts<T>::structure(value, bytes);
  bytes.finish();
  return value;
}

// Appends zeros to dimension 0 of each tensor as Accelerate's function of this name does; `dim` is
// the dimension along which the old values are placed. batch_size is the current size of dimension
// 0; with n = num_processes, the new size is batch_size + n - batch_size / n (n if batch_size < n;
// batch_size + batch_size % n - that difference if the difference is not positive), which is not
// always a multiple of n. For an even split, use split_between_processes(…, apply_padding).
template <Nested T>
T pad_input_tensors(const T& value, int64_t batch_size, int64_t num_processes, int64_t dim = 0) {
  return map_tensors(value, [&](const at::Tensor& tensor) {
    return nested_detail::pad_input_one(tensor, batch_size, num_processes, dim);
  });
}

// The half-open range of `length` items that a rank gets: as even as possible, with the extra items
// on the first ranks. Throws std::invalid_argument unless 0 <= rank < world_size and length >= 0.
struct SplitRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t padding = 0;  // how many items fewer than rank 0: 0 or 1
};
SplitRange split_range(int64_t length, int rank, int world_size);

// This rank's items of a list. With apply_padding every rank gets the same number, by repeating the
// list's last item (drop the surplus after a gather). An empty list stays empty.
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

// As above, for dimension 0 of every tensor of a value that is not a list; the tensors stay on
// their devices. Throws std::invalid_argument unless all have the same size in dimension 0 (0-d
// tensors never do). For a map of lists, see the overload below.
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
