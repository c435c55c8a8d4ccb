// See alias.h.
#include "alias.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "memory.h"

namespace remote {

at::Tensor alias_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const c10::Storage seen(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(window(storage.data()), c10::Device(at::kCPU)), c10::GetAllocator(at::kCPU),
      /*resizable=*/true));
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(seen), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.is_conj()) alias._set_conj(true);
  if (tensor.is_neg()) alias._set_neg(true);
  return alias;
}

at::Tensor view_over(const at::Tensor& base, const at::Tensor& view) {
  auto result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(), view.dtype());
  result.unsafeGetTensorImpl()->set_storage_offset(view.storage_offset());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes(), view.strides());
  return result;
}

}  // namespace remote
