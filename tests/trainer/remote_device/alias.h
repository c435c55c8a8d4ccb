// Tensors of the CPU over the memory of the device's tensors, for the kernels that run on its
// streams. They do not keep the memory: that is the allocator's, in the stream's order.
#pragma once

#include <ATen/core/Tensor.h>

namespace remote {

// With the same storage offset, sizes and strides, over the whole storage. Only a thread of the
// device may read it.
at::Tensor alias_of(const at::Tensor& tensor);

// A tensor of the device over the storage of `base`, with the offset, sizes and strides of `view`.
at::Tensor view_over(const at::Tensor& base, const at::Tensor& view);

}  // namespace remote
