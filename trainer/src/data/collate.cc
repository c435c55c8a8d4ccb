// The tensor operations of collating, gathering and torch's shuffling; see collate.h, dataset.h and
// seedable_random_order.
#include "muster/data/collate.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <stdexcept>

#include "muster/data/dataset.h"
#include "muster/data/loader_core.h"

namespace muster {
namespace {

// Above this many bytes, index_select's threads gather faster than sequential memcpys.
constexpr int64_t kPlainCopyMax = 1 << 20;

// A new 1-D tensor with these values.
template <typename Number>
at::Tensor tensor_of(const std::vector<Number>& values, at::ScalarType dtype) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, dtype);
  if (!values.empty()) {
    std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(Number));
  }
  return tensor;
}

std::string shape_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "no tensor";
  return c10::str(tensor.scalar_type(), " ", tensor.sizes());
}

bool plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && tensor.is_contiguous();
}

}  // namespace

at::Tensor stack_samples(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty() || !tensors[0].defined()) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined()) throw std::invalid_argument("only some samples have this tensor");
    }
    return {};
  }
  const at::Tensor& first = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) {
    const at::Tensor& other = tensors[i];
    if (other.defined() && other.sizes() == first.sizes() &&
        other.scalar_type() == first.scalar_type()) {
      continue;
    }
    throw std::invalid_argument("samples cannot be stacked: the batch's first has " +
                                shape_text(first) + ", its sample " + std::to_string(i) + " has " +
                                shape_text(other) + "; use a collate function that pads them");
  }
  return at::stack(tensors);
}

namespace collate_detail {

at::Tensor collate_integers(const std::vector<int64_t>& values) {
  return tensor_of(values, at::kLong);
}
at::Tensor collate_floats(const std::vector<float>& values) {
  return tensor_of(values, at::kFloat);
}
at::Tensor collate_doubles(const std::vector<double>& values) {
  return tensor_of(values, at::kDouble);
}
at::Tensor collate_bools(const std::vector<int64_t>& values) {
  return tensor_of(values, at::kLong).to(at::kBool);
}

void throw_lengths(int64_t sample, size_t first, size_t other) {
  throw std::invalid_argument("samples cannot be collated: the batch's first has a container of " +
                              std::to_string(first) + " elements, its sample " +
                              std::to_string(sample) + " one of " + std::to_string(other));
}

void throw_key(int64_t sample, const std::string& key) {
  throw std::invalid_argument("samples cannot be collated: the batch's sample " +
                              std::to_string(sample) + " has no key '" + key +
                              "', which its first has");
}

}  // namespace collate_detail

int64_t known_dataset_size(std::optional<size_t> size) {
  if (!size) {
    throw std::invalid_argument(
        "the dataset's size() is unknown: return a size, or make it a stream (dataset.h)");
  }
  return static_cast<int64_t>(*size);
}

at::Tensor gather_rows(const at::Tensor& tensor, std::span<const int64_t> indices) {
  const auto count = static_cast<int64_t>(indices.size());
  const size_t row_bytes =
      tensor.size(0) == 0 ? 0 : tensor.nbytes() / static_cast<size_t>(tensor.size(0));
  if (!plain(tensor) || count * static_cast<int64_t>(row_bytes) > kPlainCopyMax) {
    const at::Tensor rows = at::from_blob(const_cast<int64_t*>(indices.data()), {count}, at::kLong);
    return tensor.index_select(0, rows.to(tensor.device()));
  }
  c10::SmallVector<int64_t, 5> shape(tensor.sizes().begin(), tensor.sizes().end());
  shape[0] = count;
  at::Tensor rows = at::empty(shape, tensor.options());
  const auto* from = static_cast<const char*>(tensor.const_data_ptr());
  auto* to = static_cast<char*>(rows.mutable_data_ptr());
  for (const int64_t index : indices) {
    std::memcpy(to, from + static_cast<size_t>(index) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return rows;
}

std::function<std::vector<int64_t>(int64_t epoch)> seedable_random_order(int64_t dataset_size,
                                                                         uint64_t seed) {
  return [dataset_size, seed](int64_t epoch) {
    const at::Generator generator =
        at::detail::createCPUGenerator(seed + static_cast<uint64_t>(epoch));
    const at::Tensor order = at::randperm(dataset_size, generator, at::kLong);
    const auto* first = order.const_data_ptr<int64_t>();
    return std::vector<int64_t>(first, first + dataset_size);
  };
}

int64_t common_rows(const std::vector<at::Tensor>& tensors) {
  int64_t rows = -1;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const int64_t own = tensor.dim() == 0 ? -1 : tensor.size(0);
    if (own < 0 || (rows >= 0 && own != rows)) {
      throw std::invalid_argument(
          "TensorDataset: dimension 0 counts the samples and must be equal in all tensors; one "
          "has " +
          shape_text(tensor) + (rows >= 0 ? ", those before " + std::to_string(rows) : ""));
    }
    rows = own;
  }
  if (rows < 0) throw std::invalid_argument("TensorDataset: needs at least one tensor");
  return rows;
}

}  // namespace muster
