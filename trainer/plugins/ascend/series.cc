// See series.h.
#include "series.h"

#include <initializer_list>

#include "muster/device/device_plugin.h"

namespace muster::ascend {
namespace {

uint32_t set_of(std::initializer_list<MusterDtype> dtypes) {
  uint32_t set = 0;
  for (const MusterDtype dtype : dtypes) set |= 1U << static_cast<uint32_t>(dtype);
  return set;
}

bool has_bfloat16(Series series) {
  return series == Series::atlas_a2 || series == Series::atlas_a3 || series == Series::ascend_950;
}

// Reductions. The sum of bools becomes a maximum over uint8, which HCCL cannot reduce on any
// series.
uint32_t reduced(Series series) {
  const uint32_t everywhere = set_of({MUSTER_INT8, MUSTER_INT32, MUSTER_FLOAT16, MUSTER_FLOAT32});
  switch (series) {
    case Series::atlas_training:
      return everywhere | set_of({MUSTER_INT64});
    case Series::atlas_300i_duo:
      return everywhere | set_of({MUSTER_INT16});
    case Series::atlas_a2:
    case Series::atlas_a3:
      return everywhere | set_of({MUSTER_INT16, MUSTER_INT64, MUSTER_BFLOAT16});
    case Series::ascend_950:
      return everywhere | set_of({MUSTER_INT16, MUSTER_INT64, MUSTER_BFLOAT16, MUSTER_FLOAT64});
    case Series::unknown:
      break;
  }
  return everywhere;
}

// Collectives that only move data.
uint32_t moved(Series series) {
  uint32_t set = set_of({MUSTER_BOOL, MUSTER_UINT8, MUSTER_INT8, MUSTER_INT16, MUSTER_INT32,
                         MUSTER_INT64, MUSTER_FLOAT16, MUSTER_FLOAT32, MUSTER_FLOAT64});
  if (has_bfloat16(series)) set |= set_of({MUSTER_BFLOAT16});
  if (series == Series::ascend_950) set |= set_of({MUSTER_FLOAT8_E4M3, MUSTER_FLOAT8_E5M2});
  return set;
}

}  // namespace

Series series_of(std::string_view soc_name) {
  const auto starts = [&](std::string_view start) { return soc_name.starts_with(start); };
  if (starts("Ascend950") || starts("Ascend910_95")) return Series::ascend_950;
  if (starts("Ascend910_93")) return Series::atlas_a3;
  // "Ascend910B" without a digit is a first-generation device.
  constexpr std::string_view kA2 = "Ascend910B";
  if (starts(kA2) && soc_name.size() > kA2.size()) return Series::atlas_a2;
  if (starts("Ascend910")) return Series::atlas_training;
  if (starts("Ascend310P")) return Series::atlas_300i_duo;
  return Series::unknown;
}

const char* series_name(Series series) {
  switch (series) {
    case Series::atlas_training:
      return "Atlas training (910A)";
    case Series::atlas_a2:
      return "Atlas A2";
    case Series::atlas_a3:
      return "Atlas A3";
    case Series::atlas_300i_duo:
      return "Atlas 300I Duo";
    case Series::ascend_950:
      return "Ascend 950";
    case Series::unknown:
      break;
  }
  return "an Ascend series that the plug-in does not know";
}

uint32_t collective_dtypes(Series series, int32_t collective) {
  const bool adds = collective == MUSTER_ALL_REDUCE || collective == MUSTER_REDUCE_SCATTER;
  return adds ? reduced(series) : moved(series);
}

}  // namespace muster::ascend
