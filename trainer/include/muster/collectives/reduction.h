// How the values of all ranks become one. No torch.
#pragma once

namespace muster {

// sum: added. mean: added, then divided by the number of ranks; floating-point and complex types
// only. max and min: the largest and the smallest of each element, NaN where any rank has NaN; not
// for complex types.
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
