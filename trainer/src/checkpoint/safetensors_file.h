// Inside of safetensors files: writing one under its final name, for an owner that publishes the
// whole directory, and what counts as the same tensor.
#pragma once

#include <tuple>
#include <vector>

#include "muster/safetensors.h"

namespace muster {

// As save_safetensors, but straight into `path`: fsynced, not renamed.
SavedFile write_safetensors(const std::string& path, const TensorMap& tensors,
                            const StringMap& metadata);

// What makes two tensors the same piece of memory: they are written once.
using TensorIdentity =
    std::tuple<const void*, int64_t, at::ScalarType, std::vector<int64_t>, std::vector<int64_t>>;
TensorIdentity identity_of(const at::Tensor& tensor);

// Throws FormatError for an undefined, sparse or quantized tensor.
void require_dense(const std::string& name, const at::Tensor& tensor);

}  // namespace muster
