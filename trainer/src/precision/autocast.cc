// Follows torch.autocast's __enter__ and __exit__ step by step. The order matters: the cache is
// cleared when the nesting depth reaches 0, before the outer state is restored.
#include "muster/precision/autocast.h"

#include <ATen/autocast_mode.h>

#include <stdexcept>
#include <string>

namespace muster {

Precision parse_precision(std::string_view text) {
  if (text == "no" || text == "fp32") return Precision::fp32;
  if (text == "fp16") return Precision::fp16;
  if (text == "bf16") return Precision::bf16;
  throw std::invalid_argument("mixed precision is '" + std::string(text) +
                              "', but must be one of: no (or fp32), fp16, bf16");
}

const char* precision_name(Precision precision) {
  switch (precision) {
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::fp32:
      break;
  }
  return "no";
}

at::ScalarType precision_dtype(Precision precision) {
  switch (precision) {
    case Precision::fp16:
      return at::kHalf;
    case Precision::bf16:
      return at::kBFloat16;
    case Precision::fp32:
      break;
  }
  return at::kFloat;
}

Autocast::Autocast(at::DeviceType device, Precision precision, const AutocastOptions& options)
    : device_(device),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      cache_enabled_before_(at::autocast::is_autocast_cache_enabled()),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  const bool enabled = options.enabled && precision != Precision::fp32;
  at::autocast::set_autocast_enabled(device_, enabled);
  if (enabled) at::autocast::set_autocast_dtype(device_, precision_dtype(precision));
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(options.cache_enabled);
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
  at::autocast::set_autocast_cache_enabled(cache_enabled_before_);
}

}  // namespace muster
