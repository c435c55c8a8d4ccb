#include "common/text/exact_number.h"

#include <charconv>
#include <cmath>

namespace muster::common {

std::string ExactNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string ExactJson(double value) {
  return std::isfinite(value) ? ExactNumber(value) : "\"" + ExactNumber(value) + "\"";
}

}  // namespace muster::common
