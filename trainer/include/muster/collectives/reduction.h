// How the values of all ranks are combined. No torch.
#pragma once

namespace muster {

// sum: the sum. mean: the sum divided by the number of ranks; floating-point and complex types
// only. max and min: elementwise, NaN if any rank has NaN; not for complex types.
enum class Reduction { sum, mean, max, min };

// "sum", "mean", "max", "min": for messages.
constexpr const char* reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::mean:
      return "mean";
    case Reduction::max:
      return "max";
    case Reduction::min:
      return "min";
  }
  return "unknown";
}

}  // namespace muster
