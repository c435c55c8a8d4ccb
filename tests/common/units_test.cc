// Durations and sizes, parsed and formatted.
#include "common/text/units.h"

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

TEST(MemoriesTest, SizesOfLimitsNameTheirUnitAndReadBack) {
  EXPECT_EQ(*ParseByteSize("512MiB"), 512u << 20);
  EXPECT_EQ(*ParseByteSize("1.5gib"), uint64_t{1'536} << 20);
  EXPECT_EQ(*ParseByteSize("4GB"), 4'000'000'000u);
  EXPECT_EQ(*ParseByteSize("0.001KiB"), 1u);
  for (const char* four : {"4G", "4g", "4Gi", "4gi", "4GiB"})
    EXPECT_EQ(*ParseByteSize(four), uint64_t{4} << 30) << four;
  for (const char* wrong : {"", "G", "4I", "4IB", "512", "GiB", "0GB", "-1GB", "+1GB", "1e3MB",
                            "4 GB", "1.0001GB", "1.GB", ".5GB", "99999999TiB", "nanGB", "4GBB"}) {
    EXPECT_FALSE(ParseByteSize(wrong).ok()) << wrong;
  }
  for (const char* text : {"512 MiB", "1.5 GiB", "4 GB", "100 MB", "4 MiB", "1024 TiB", "7 KB"}) {
    std::string word = text;
    word.erase(word.find(' '), 1);
    EXPECT_EQ(ExactBytes(*ParseByteSize(word)), text);
  }
  EXPECT_EQ(ExactBytes(0), "0 B");
  EXPECT_EQ(ExactBytes(1'234'567'891), "1234567891 B");
}

TEST(ThousandthsTest, AreReadWithAtMostThreeDecimals) {
  EXPECT_EQ(*ParseThousandths("2"), 2'000);
  EXPECT_EQ(*ParseThousandths("0.5"), 500);
  EXPECT_EQ(*ParseThousandths("0.125"), 125);
  EXPECT_EQ(*ParseThousandths("1000000"), 1'000'000'000);
  for (const char* wrong : {"", ".", ".5", "5.", "-1", "+1", "1e3", "inf", "0.0625", "1000001",
                            "99999999", "1,5", "2 "}) {
    EXPECT_FALSE(ParseThousandths(wrong).ok()) << wrong;
  }
  EXPECT_EQ(Thousandths(2'000), "2");
  EXPECT_EQ(Thousandths(500), "0.5");
  EXPECT_EQ(Thousandths(125), "0.125");
  EXPECT_EQ(Thousandths(20), "0.02");
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
