// Inside of safetensors files: writing one under its final name, for an owner that publishes the
// whole directory, and what counts as the same tensor.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

// As save_safetensors, but straight into `path`: fsynced, not renamed.
SavedFile write_safetensors(const std::string& path, const TensorMap& tensors,
                            const StringMap& metadata);

// A tensor that is asked for only when its turn comes.
struct TensorOutline {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
};
using FetchTensor = std::function<at::Tensor(const std::string& name)>;

// Into the order of the file: by dtype (largest elements first), then by name.
void sort_for_file(std::vector<TensorOutline>& outlines);

// As write_safetensors for tensors that do not share memory. fetch gives each one when its turn
// comes, in the order of sort_for_file; the one before has been dropped then. Throws FormatError
// when one is not what its outline says.
SavedFile write_safetensors(const std::string& path, std::vector<TensorOutline> outlines,
                            const StringMap& metadata, const FetchTensor& fetch);

// LibTorch's dtype for the format's word. Throws FormatError("<where> has dtype …").
at::ScalarType torch_dtype(const std::string& dtype, const std::string& where);

// Throws std::invalid_argument unless `target` is 1-D and elements from `begin` on fill it.
void require_range(const std::string& name, int64_t elements, int64_t begin,
                   const at::Tensor& target);

// What makes two tensors the same piece of memory: they are written once.
using TensorIdentity =
    std::tuple<const void*, int64_t, at::ScalarType, std::vector<int64_t>, std::vector<int64_t>>;
TensorIdentity identity_of(const at::Tensor& tensor);

// Throws FormatError for an undefined, sparse or quantized tensor.
void require_dense(const std::string& name, const at::Tensor& tensor);

}  // namespace muster
