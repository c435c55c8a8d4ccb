// Durations and sizes, parsed and formatted.
#include "common/units.h"

#include <gtest/gtest.h>

namespace muster::common {
namespace {

TEST(DurationsTest, DurationsAreReadAndWrongOnesRefused) {
  EXPECT_EQ(*ParseDurationMs("500ms"), 500);
  EXPECT_EQ(*ParseDurationMs("30"), 30'000);
  EXPECT_EQ(*ParseDurationMs("30s"), 30'000);
  EXPECT_EQ(*ParseDurationMs("1h30m"), 5'400'000);
  EXPECT_EQ(*ParseDurationMs("1.5s"), 1'500);
  EXPECT_EQ(*ParseDurationMs("2d"), 172'800'000);
  for (const char* wrong :
       {"", "s", "-1s", "1x", "1 s", "1s2", "1e9s", "99999999999999999999s", "inf", "nan", "infs",
        "nans", "1hnanm", "nan(1)s", "-0s", "1h-1m", "+1s", "1e400s", "36501d"}) {
    EXPECT_FALSE(ParseDurationMs(wrong).ok()) << wrong;
  }
}

TEST(MemoriesTest, AreReadInAnyCaseAndWrongOnesRefused) {
  EXPECT_EQ(*ParseMemory("64GB"), 64'000'000'000u);
  EXPECT_EQ(*ParseMemory("64gb"), 64'000'000'000u);
  EXPECT_EQ(*ParseMemory("1MB"), 1'000'000u);
  EXPECT_EQ(*ParseMemory("1000000GB"), 1'000'000'000'000'000u);
  for (const char* wrong : {"", "GB", "64", "0GB", "-1GB", "1.5GB", "64 GB", "64TB", "1000001MB"}) {
    EXPECT_FALSE(ParseMemory(wrong).ok()) << wrong;
  }
}

TEST(HumanSizes, CountInPowersOfAThousand) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.0 KB");
  EXPECT_EQ(HumanBytes(1'234'567), "1.2 MB");
  EXPECT_EQ(HumanBytes(340'000), "340 KB");
  EXPECT_EQ(HumanBytes(999'999), "1.0 MB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "18 EB");
}

TEST(HumanDurations, ShowTheTwoLargestUnits) {
  EXPECT_EQ(HumanDuration(-5), "0s");
  EXPECT_EQ(HumanDuration(0), "0s");
  EXPECT_EQ(HumanDuration(300), "300ms");
  EXPECT_EQ(HumanDuration(41'900), "41s");
  EXPECT_EQ(HumanDuration(723'000), "12m 3s");
  EXPECT_EQ(HumanDuration(12'000'000), "3h 20m");
  EXPECT_EQ(HumanDuration(187'200'000), "2d 4h");
}

}  // namespace
}  // namespace muster::common
