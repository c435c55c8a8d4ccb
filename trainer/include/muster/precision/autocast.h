// Automatic mixed precision: the dtype that matrix products and convolutions compute in.
//
// The underlying state is LibTorch's and thread-local: threads started inside a region do not
// inherit it (backward()'s threads take it from the forward pass). Source:
// torch/amp/autocast_mode.py.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// What a model computes in. Parameters, their gradients and the optimizer's state stay float32.
//   fp32: no mixed precision; Accelerate says "no"
//   fp16: needs a GradScaler, or small gradients underflow to zero bf16: range of float32 with 8
//   bits of precision; needs no scaler
enum class Precision { fp32, fp16, bf16 };

// Accepts "no", "fp32", "fp16" and "bf16", in lower case as in ACCELERATE_MIXED_PRECISION. Throws
// std::invalid_argument naming the text and the accepted ones.
Precision parse_precision(std::string_view text);

// "no", "fp16" or "bf16", as Accelerate reads them.
const char* precision_name(Precision precision);

// A precision, by its value or by its name, or none. Throws as parse_precision does.
class PrecisionChoice : public std::optional<Precision> {
 public:
  using std::optional<Precision>::optional;
  PrecisionChoice(std::optional<Precision> choice) : std::optional<Precision>(choice) {}
  PrecisionChoice(std::string_view name) : std::optional<Precision>(parse_precision(name)) {}
  PrecisionChoice(const char* name) : PrecisionChoice(std::string_view(name)) {}
  PrecisionChoice(const std::string& name) : PrecisionChoice(std::string_view(name)) {}
};

// float, half or bfloat16.
at::ScalarType precision_dtype(Precision precision);

struct AutocastOptions {
  // false: no mixed precision in this region, even inside one that has it.
  bool enabled = true;
  // Casts each weight once per outermost region instead of at each use. Turn it off if weights
  // change inside the region.
  bool cache_enabled = true;
};

// While it lives, operations on the device compute in the given precision; Precision::fp32 disables
// autocast. The destructor restores the previous state, and leaving the outermost region clears the
// cache of cast weights (otherwise every step would keep another copy of them: pytorch #46649).
// Regions nest by scope, on one thread.
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
