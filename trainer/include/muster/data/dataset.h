// What a DataLoader reads: datasets, and the concepts that define them.
//
// Map-style: samples by index.
//
//   struct Images {
//     int64_t size() const;
//     Example get(int64_t index) const;            // any type that the collate function takes
//     std::string describe(int64_t index) const;   // optional: file and offset, for error messages
//   };
//
// If the loader has workers, several threads call get at once. If get is not const, as in
// torch::data::datasets::Dataset, each worker gets its own copy of the dataset instead. Random
// augmentation should seed itself with the number passed to get(int64_t index, uint64_t
// random_seed) const: it depends only on (seed, epoch, index), so a sample is augmented identically
// for any world size, any number of workers, and after a resume. A dataset that can gather a whole
// batch faster defines
//
//     Batch get_batch(std::span<const int64_t> indices) const;
//
// which is used unless a collate function is given.
//
// Stream: samples in a fixed order, read by one thread at a time. It must return the same samples
// on every rank and each time an epoch is read.
//
//   struct Lines {
//     void reset(int64_t epoch);                 // seek to the start of that epoch
//     std::optional<std::string> next();         // nullopt: the epoch is over
//     int64_t skip(int64_t count);               // optional: skip; returns how many were skipped
//     std::string describe(int64_t number) const;  // optional
//   };
//
// Datasets of torch::data (MNIST, TensorDataset, your Dataset subclass, and the results of their
// map()) work as map-style datasets unchanged; torch's StatefulDataset does not.
#pragma once

#include <torch/data/datasets/base.h>
#include <torch/types.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/values/nested.h"

namespace muster {

template <typename D>
concept SeededSamples = requires(const D& d, int64_t index, uint64_t random_seed) {
  d.get(index, random_seed);
};
template <typename D>
concept ConstSamples = requires(const D& d, int64_t index) {
  d.get(index);
};
template <typename D>
concept MutableSamples = std::copy_constructible<D> && requires(D& d, int64_t index) {
  d.get(index);
};
template <typename D>
concept GathersBatches = requires(const D& d, std::span<const int64_t> indices) {
  d.get_batch(indices);
};
// torch::data's batches: std::vector<Example> (samples not yet collated) or a batch.
template <typename D>
concept TorchBatches = std::copy_constructible<D> && requires(D& d, at::ArrayRef<size_t> indices) {
  d.get_batch(indices);
};

template <typename D>
concept MapStyleDataset = requires(const D& d) {
  d.size();
}
&&(SeededSamples<D> || ConstSamples<D> || MutableSamples<D> || GathersBatches<D> ||
   TorchBatches<D>);

template <typename D>
concept StreamStyleDataset = !MapStyleDataset<D> && requires(D & d, int64_t epoch) {
  d.reset(epoch);
  *d.next();
  static_cast<bool>(d.next());
};

template <typename D>
concept AnyDataset = MapStyleDataset<D> || StreamStyleDataset<D>;

// Number of samples of a map-style dataset. Throws std::invalid_argument if torch's optional size
// is unknown.
int64_t known_dataset_size(std::optional<size_t> size);
template <MapStyleDataset D>
int64_t dataset_size(const D& dataset) {
  if constexpr (std::is_arithmetic_v<decltype(dataset.size())>) {
    return static_cast<int64_t>(dataset.size());
  } else {
    return known_dataset_size(dataset.size());
  }
}

// Rows `indices` of dimension 0, copied into a new tensor [indices, …]. The indices must be valid.
at::Tensor gather_rows(const at::Tensor& tensor, std::span<const int64_t> indices);

// The size of dimension 0 that all tensors share. Throws std::invalid_argument if there are no
// tensors or the sizes differ.
int64_t common_rows(const std::vector<at::Tensor>& tensors);

// Tensors in memory whose dimension 0 indexes the samples, in any Nested form; a batch has the same
// form, so a loop is for example
//
//   muster::DataLoader loader(muster::TensorDataset(images, labels), {.batch_size = 32});
//   for (auto& [batch_images, batch_labels] : loader) …
//
// Batches of TensorDataset{tensor} are tensors (with parentheses C++ would parse a declaration),
// those of TensorDataset(a, b, …) std::array<at::Tensor, N>, and those of TensorDataset(value) of a
// struct with fields(), a map or a tuple are of that type. The tensors are shared, not copied;
// batches are copies.
template <Nested T>
class TensorDataset {
 public:
  // Throws std::invalid_argument if the sizes of dimension 0 differ.
  explicit TensorDataset(T value)
      : value_(std::move(value)), size_(common_rows(flatten_tensors(value_))) {}
  template <std::same_as<at::Tensor>... More>
  TensorDataset(at::Tensor first, at::Tensor second, More... more)
      : TensorDataset(T{std::move(first), std::move(second), std::move(more)...}) {}

  int64_t size() const { return size_; }
  // One sample, as views.
  T get(int64_t index) const {
    return map_tensors(value_, [&](const at::Tensor& tensor) { return tensor.select(0, index); });
  }
  T get_batch(std::span<const int64_t> indices) const {
    return map_tensors(value_,
                       [&](const at::Tensor& tensor) { return gather_rows(tensor, indices); });
  }
  const T& tensors() const { return value_; }

 private:
  T value_;
  int64_t size_;
};

template <typename T>
TensorDataset(T) -> TensorDataset<T>;
template <std::same_as<at::Tensor>... More>
TensorDataset(at::Tensor, at::Tensor, More...)
    -> TensorDataset<std::array<at::Tensor, 2 + sizeof...(More)>>;

}  // namespace muster
