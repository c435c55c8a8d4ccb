// Internals of safetensors files: writing one directly, for an owner that publishes the whole
// directory, and the identity of tensors.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

// Like save_safetensors, but writes directly to `path`: fsynced, not renamed.
SavedFile write_safetensors(const std::string& path, const TensorMap& tensors,
                            const StringMap& metadata);

// Describes a tensor that is fetched only when it is written.
struct TensorOutline {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
};
using FetchTensor = std::function<at::Tensor(const std::string& name)>;

// Sorts into file order: by dtype (largest elements first), then by name.
void sort_for_file(std::vector<TensorOutline>& outlines);

// Like write_safetensors, for tensors that do not share memory. Calls fetch for one tensor at a
// time, in the order of sort_for_file, after releasing the previous one. Throws FormatError if a
// tensor does not match its outline.
SavedFile write_safetensors(const std::string& path, std::vector<TensorOutline> outlines,
                            const StringMap& metadata, const FetchTensor& fetch);

// LibTorch's dtype for the format's name. Throws FormatError("<where> has dtype …").
at::ScalarType torch_dtype(const std::string& dtype, const std::string& where);

// Throws std::invalid_argument unless `target` is 1-D and the elements from `begin` on can fill it.
void require_range(const std::string& name, int64_t elements, int64_t begin,
                   const at::Tensor& target);

// Tensors with equal identity share all their memory and are written once.
using TensorIdentity =
    std::tuple<const void*, int64_t, at::ScalarType, std::vector<int64_t>, std::vector<int64_t>>;
TensorIdentity identity_of(const at::Tensor& tensor);

// Throws FormatError for an undefined, sparse or quantized tensor.
void require_dense(const std::string& name, const at::Tensor& tensor);

}  // namespace muster
