// Automatic mixed precision: the dtype that matrix products and convolutions compute in.
//
// The state behind it is LibTorch's own and belongs to the thread: threads that are started inside
// a region do not inherit it (the threads of backward() take it from the forward pass).
// Source: torch/amp/autocast_mode.py.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <string_view>

namespace muster {

// What a model computes in. Parameters, their gradients and the optimizer's state stay float32.
//   fp32: no mixed precision; Accelerate says "no"
//   fp16: needs a GradScaler, as small gradients would become zero
//   bf16: range of float32 with 8 bits of precision; needs no scaler
enum class Precision { fp32, fp16, bf16 };

// "no" and "fp32", "fp16", "bf16", in small letters as Accelerate writes them
// (ACCELERATE_MIXED_PRECISION). Throws std::invalid_argument that names the text met and the ones
// that are known.
Precision parse_precision(std::string_view text);

// "no", "fp16" or "bf16", which Accelerate reads.
const char* precision_name(Precision precision);

// float, half or bfloat16.
at::ScalarType precision_dtype(Precision precision);

struct AutocastOptions {
  // false: a region without mixed precision, also inside of one with it.
  bool enabled = true;
  // Weights are cast once for a whole outermost region instead of at each use. Turn it off where
  // weights change inside the region.
  bool cache_enabled = true;
};

// While it lives, operations on the device compute in the precision; Precision::fp32 makes a region
// without autocast. The state before comes back at the end, also after an exception; leaving the
// outermost region drops the cache of cast weights (without that, every step would keep another
// copy of them: pytorch #46649). Regions nest, on one thread, in the order of their scopes.
class Autocast {
 public:
  Autocast(at::DeviceType device, Precision precision, const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_before_;
  bool cache_enabled_before_;
  at::ScalarType dtype_before_;
};

}  // namespace muster
