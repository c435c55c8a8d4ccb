// The operators that are written for the device: memory, copies, and three that LibTorch leaves to
// each backend.
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

#include "alias.h"
#include "memory.h"
#include "registration.h"

namespace remote {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device target(std::optional<c10::Device> device) {
  return device && device->has_index() ? *device : current_device();
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                 std::optional<bool> /*pin*/, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(target(device));
  return at::detail::empty_generic(sizes, &device_allocator(), kKeys, c10::dtype_or_default(dtype),
                                   format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<c10::Layout> /*layout*/,
                         std::optional<c10::Device> device, std::optional<bool> /*pin*/) {
  const c10::DeviceGuard guard(target(device));
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

// The storage keeps its bytes; what is new is unset.
void grow(const c10::Storage& storage, size_t bytes) {
  if (bytes <= storage.nbytes()) return;
  c10::DataPtr memory = device_allocator().allocate(bytes);
  if (storage.nbytes() > 0) {
    device_allocator().copy_data(memory.get(), storage.data(), storage.nbytes());
  }
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(memory));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format && *format != at::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  grow(impl->unsafe_storage(),
       at::detail::computeStorageNbytesContiguous(sizes, self.itemsize(), self.storage_offset()));
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source, int64_t offset,
                        c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (strides.data() == nullptr) {
    impl->set_sizes_contiguous(sizes);
  } else {
    impl->set_sizes_and_strides(sizes, strides);
  }
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, c10::Storage source) {
  const auto numel = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {numel}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

void copy_on(c10::Stream stream, const at::Tensor& to, const at::Tensor& from) {
  enqueue(stream, [to, from] { at::Tensor(to).copy_(from); });
}

// Memory of the host that is not pinned is copied before the call returns; pinned memory later, if
// the caller allows it.
void copy_to_device(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool later = non_blocking && is_pinned(from.const_data_ptr());
  copy_on(current_stream(to.device().index()), alias_of(to),
          later || !non_blocking ? from : from.clone());
  if (!non_blocking) synchronize(current_stream(to.device().index()));
}

void copy_to_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const c10::Stream stream = current_stream(from.device().index());
  copy_on(stream, to, alias_of(from));
  if (!non_blocking || !is_pinned(to.const_data_ptr())) synchronize(stream);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const bool from_device = from.device().type() == kType, to_device = to.device().type() == kType;
  const at::Tensor source = from.sizes() == to.sizes() ? from : from.expand_as(to);
  if (from_device && to_device) {
    const c10::Stream stream = current_stream(to.device().index());
    const c10::Stream other = current_stream(from.device().index());
    if (from.device() != to.device()) wait_on_stream(stream, record(other));
    copy_on(stream, alias_of(to), alias_of(source));
    if (from.device() != to.device()) wait_on_stream(other, record(stream));
  } else if (to_device) {
    copy_to_device(to, source, non_blocking);
  } else {
    copy_to_host(to, source, non_blocking);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator().recordStream(self.storage().data_ptr(), stream);
}

// LibTorch fuses dropout on devices other than the CPU, and its fused form takes no generator.
std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& input, double p,
                                           std::optional<bool> train) {
  if (!train.value_or(true)) return {input.clone(), at::empty_like(input, at::kBool).fill_(true)};
  const at::Tensor mask = at::empty_like(input, at::kBool).bernoulli_(1 - p);
  return {input.mul(mask).mul_(p == 1 ? 0.0 : 1 / (1 - p)), mask};
}

}  // namespace

void register_operators() {
  static auto* const library = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl("empty.memory_format", &empty);
  library->impl("empty_strided", &empty_strided);
  library->impl("resize_", &resize);
  library->impl("set_.source_Storage_storage_offset", &set_storage);
  library->impl("set_.source_Storage", &set_whole_storage);
  library->impl("set_.source_Tensor", &set_tensor);
  library->impl("_copy_from", &copy_from);
  library->impl("_copy_from_and_resize", &copy_from_and_resize);
  library->impl("record_stream", &record_stream);
  library->impl("native_dropout", &dropout);
}

}  // namespace remote
