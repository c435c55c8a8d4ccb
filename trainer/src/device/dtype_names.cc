// Names and similarity of element types; see dtype_names.h.
#include "device/dtype_names.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace muster {
namespace {

struct DtypeFacts {
  const char* name;
  int bits;
  bool floating;
  bool is_signed;
};

// Indexed by MusterDtype.
constexpr std::array<DtypeFacts, MUSTER_DTYPE_COUNT> kFacts = {{{"bool", 1, false, false},
                                                                {"uint8", 8, false, false},
                                                                {"int8", 8, false, true},
                                                                {"int16", 16, false, true},
                                                                {"uint16", 16, false, false},
                                                                {"int32", 32, false, true},
                                                                {"uint32", 32, false, false},
                                                                {"int64", 64, false, true},
                                                                {"uint64", 64, false, false},
                                                                {"float16", 16, true, true},
                                                                {"bfloat16", 16, true, true},
                                                                {"float32", 32, true, true},
                                                                {"float64", 64, true, true},
                                                                {"float8_e4m3fn", 8, true, true},
                                                                {"float8_e5m2", 8, true, true}}};

const DtypeFacts& facts(MusterDtype dtype) { return kFacts.at(static_cast<size_t>(dtype)); }

bool may_replace(MusterDtype candidate, MusterDtype dtype) {
  const DtypeFacts& to = facts(candidate);
  if (facts(dtype).floating) return to.floating && to.bits >= 16;
  return !to.floating && to.bits > 1;
}

// Smaller is closer: a wider type holds all the values, a narrower one only some.
int distance(MusterDtype candidate, MusterDtype dtype) {
  const DtypeFacts& to = facts(candidate);
  const DtypeFacts& from = facts(dtype);
  const int other_sign = to.is_signed == from.is_signed ? 0 : 1;
  return 2 * std::abs(to.bits - from.bits) + other_sign + (to.bits < from.bits ? 1000 : 0);
}

}  // namespace

std::string dtype_name(MusterDtype dtype) { return facts(dtype).name; }

std::string collective_name(MusterCollective collective) {
  constexpr std::array<const char*, MUSTER_COLLECTIVE_COUNT> kNames = {
      "all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"};
  return kNames.at(static_cast<size_t>(collective));
}

std::vector<MusterDtype> dtype_alternatives(MusterDtype dtype, uint32_t supported) {
  std::vector<MusterDtype> found;
  for (int number = 0; number < MUSTER_DTYPE_COUNT; ++number) {
    const auto candidate = static_cast<MusterDtype>(number);
    if ((supported & dtype_bit(candidate)) != 0 && may_replace(candidate, dtype)) {
      found.push_back(candidate);
    }
  }
  std::stable_sort(found.begin(), found.end(), [&](MusterDtype a, MusterDtype b) {
    return distance(a, dtype) < distance(b, dtype);
  });
  return found;
}

}  // namespace muster
