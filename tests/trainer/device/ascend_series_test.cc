// The dtypes of Ascend's collectives by series, and alternatives to unsupported ones.
#include <gtest/gtest.h>

#include "common/device_series.h"
#include "common/text/word_list.h"
#include "device/dtype_names.h"
#include "series.h"

namespace muster {
namespace {

using ascend::Series;

std::string names(uint32_t set) {
  std::string text;
  for (int number = 0; number < MUSTER_DTYPE_COUNT; ++number) {
    const auto dtype = static_cast<MusterDtype>(number);
    if ((set & dtype_bit(dtype)) != 0) text += (text.empty() ? "" : " ") + dtype_name(dtype);
  }
  return text;
}

std::string alternatives(MusterDtype dtype, uint32_t supported) {
  std::string text;
  for (const MusterDtype other : dtype_alternatives(dtype, supported)) {
    text += (text.empty() ? "" : " ") + dtype_name(other);
  }
  return text;
}

TEST(AscendSeries, AreReadOffTheNameOfTheChip) {
  const std::pair<const char*, Series> chips[] = {
      {"Ascend910A", Series::atlas_training},    {"Ascend910PremiumA", Series::atlas_training},
      {"Ascend910ProB", Series::atlas_training}, {"Ascend910B", Series::atlas_training},
      {"Ascend910B1", Series::atlas_a2},         {"Ascend910B4-1", Series::atlas_a2},
      {"Ascend910_9391", Series::atlas_a3},      {"Ascend310P3", Series::atlas_300i_duo},
      {"Ascend950PR", Series::ascend_950},       {"Ascend910_9599", Series::ascend_950},
      {"Ascend310B1", Series::unknown},          {"", Series::unknown}};
  for (const auto& [name, series] : chips) EXPECT_EQ(ascend::series_of(name), series) << name;
}

// The coordinator refuses jobs by its own table, which must not refuse what the SDK accepts.
TEST(AscendSeries, TheServicesTableAgrees) {
  for (const char* chip : {"Ascend910A", "Ascend910PremiumA", "Ascend910ProB", "Ascend910B",
                           "Ascend910B1", "Ascend910B4-1", "Ascend910_9391", "Ascend310P3",
                           "Ascend950PR", "Ascend910_9599", "Ascend310B1", ""}) {
    const Series series = ascend::series_of(chip);
    const auto* row = common::FindDeviceSeries(common::kAscendSeries, chip);
    ASSERT_EQ(row == nullptr, series == Series::unknown) << chip;
    if (row == nullptr) continue;
    EXPECT_EQ(std::string(row->name).substr(0, 9),
              std::string(ascend::series_name(series)).substr(0, 9))
        << chip;
    const uint32_t reduced = ascend::collective_dtypes(series, MUSTER_ALL_REDUCE);
    const uint32_t moved = ascend::collective_dtypes(series, MUSTER_ALL_GATHER);
    EXPECT_EQ(common::HasWord(row->lacks_types, "bf16"),
              (reduced & dtype_bit(MUSTER_BFLOAT16)) == 0)
        << chip;
    EXPECT_EQ(common::HasWord(row->lacks_types, "fp8"),
              (moved & dtype_bit(MUSTER_FLOAT8_E4M3)) == 0)
        << chip;
  }
}

TEST(AscendSeries, AddUpWhatHcclAddsUp) {
  const std::pair<Series, const char*> rules[] = {
      {Series::atlas_training, "int8 int32 int64 float16 float32"},
      {Series::atlas_a2, "int8 int16 int32 int64 float16 bfloat16 float32"},
      {Series::atlas_a3, "int8 int16 int32 int64 float16 bfloat16 float32"},
      {Series::atlas_300i_duo, "int8 int16 int32 float16 float32"},
      {Series::ascend_950, "int8 int16 int32 int64 float16 bfloat16 float32 float64"},
      {Series::unknown, "int8 int32 float16 float32"}};
  for (const auto& [series, expected] : rules) {
    for (const auto collective : {MUSTER_ALL_REDUCE, MUSTER_REDUCE_SCATTER}) {
      EXPECT_EQ(names(ascend::collective_dtypes(series, collective)), expected)
          << ascend::series_name(series);
    }
  }
}

TEST(AscendSeries, MoveMoreThanTheyAddUp) {
  for (const auto collective : {MUSTER_ALL_GATHER, MUSTER_BROADCAST, MUSTER_ALL_TO_ALL}) {
    EXPECT_EQ(names(ascend::collective_dtypes(Series::atlas_training, collective)),
              "bool uint8 int8 int16 int32 int64 float16 float32 float64");
    EXPECT_EQ(names(ascend::collective_dtypes(Series::atlas_a2, collective)),
              "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64");
    EXPECT_EQ(names(ascend::collective_dtypes(Series::ascend_950, collective)),
              "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 float8_e4m3fn "
              "float8_e5m2");
  }
}

TEST(Alternatives, AreOfTheSameKindTheNearestFirst) {
  const uint32_t training = ascend::collective_dtypes(Series::atlas_training, MUSTER_ALL_REDUCE);
  EXPECT_EQ(alternatives(MUSTER_BFLOAT16, training), "float16 float32");
  EXPECT_EQ(alternatives(MUSTER_FLOAT64, training), "float32 float16");
  EXPECT_EQ(alternatives(MUSTER_UINT8, training), "int8 int32 int64");
  EXPECT_EQ(alternatives(MUSTER_INT16, training), "int32 int64 int8");
  EXPECT_EQ(alternatives(MUSTER_BOOL, training), "int8 int32 int64");
  EXPECT_EQ(alternatives(MUSTER_FLOAT32, 0), "");
}

}  // namespace
}  // namespace muster
