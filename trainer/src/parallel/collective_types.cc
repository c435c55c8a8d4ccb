// Checks that the device's collectives support a model's dtypes. Training thread.
#include "device/device_driver.h"
#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

void require_moved(const std::string& what, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_meta()) return;
  require_collective_dtype(tensor.device(), MUSTER_BROADCAST, tensor.scalar_type(), what);
}

}  // namespace

void require_collective_types(const DataParallel::State& state, bool reduces_gradients) {
  for (const auto& item : state.module->named_parameters()) {
    require_moved("the parameter '" + item.key() + "'", item.value());
  }
  for (const auto& item : state.module->named_buffers()) {
    require_moved("the buffer '" + item.key() + "'", item.value());
  }
  if (!reduces_gradients) return;
  const GradientCompression compression = state.options.gradient_compression;
  for (const NamedParameter& parameter : state.parameters) {
    const at::ScalarType dtype = compression == GradientCompression::fp16 ? at::kHalf
                                 : compression == GradientCompression::bf16
                                     ? at::kBFloat16
                                     : parameter.tensor.scalar_type();
    require_collective_dtype(parameter.tensor.device(), MUSTER_ALL_REDUCE, dtype,
                             "the gradient of '" + parameter.name + "'" +
                                 (compression == GradientCompression::none
                                      ? ""
                                      : " with DataParallelOptions::gradient_compression"));
  }
}

}  // namespace muster
