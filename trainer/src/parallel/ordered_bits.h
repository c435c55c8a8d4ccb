// Maps floating-point numbers to integers in the same order, so that a maximum or minimum over the
// ranks propagates NaN: backends compare with <, so NaN is kept or lost depending on its position.
// Exact in both directions. Any device.
#pragma once

#include <ATen/ATen.h>

namespace muster {

// Whether maxima and minima of this dtype use ordered bits. Half types are reduced as float32,
// which backends support anyway; other dtypes have no NaN, or no order.
inline bool has_ordered_bits(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble;
}

// float32 and float64 become int32 and int64. NaN becomes the largest value or, for a minimum, the
// smallest.
inline at::Tensor ordered_bits(const at::Tensor& values, bool for_minimum) {
  const bool is_float = values.scalar_type() == at::kFloat;
  at::Tensor bits = values.contiguous().view(is_float ? at::kInt : at::kLong);
  // The bits of negative numbers are in reverse order.
  const at::Tensor sign = bits.bitwise_right_shift(is_float ? 31 : 63);
  bits = sign.bitwise_and(is_float ? at::Scalar(0x7fffffff) : at::Scalar(0x7fffffffffffffff))
             .bitwise_xor_(bits);
  const at::Scalar nan = is_float ? at::Scalar(for_minimum ? INT32_MIN : INT32_MAX)
                                  : at::Scalar(for_minimum ? INT64_MIN : INT64_MAX);
  return bits.masked_fill_(values.isnan(), nan);
}

inline at::Tensor from_ordered_bits(const at::Tensor& bits) {
  const bool is_float = bits.scalar_type() == at::kInt;
  const at::Tensor sign = bits.bitwise_right_shift(is_float ? 31 : 63);
  return sign.bitwise_and(is_float ? at::Scalar(0x7fffffff) : at::Scalar(0x7fffffffffffffff))
      .bitwise_xor_(bits)
      .view(is_float ? at::kFloat : at::kDouble);
}

}  // namespace muster
