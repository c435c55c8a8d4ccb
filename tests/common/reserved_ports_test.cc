#include "common/reserved_ports.h"

#include <gtest/gtest.h>

namespace muster::common {
namespace {

constexpr PortSpan kBlocks = {60000, 65535};

TEST(ReservedPorts, SettingsAreReadAndWhatIsNotOneIsSkipped) {
  EXPECT_EQ(ParsePortRangeSetting("32768\t60999\n"), (PortSpan{32768, 60999}));
  for (const char* text : {"", "1", "1 2 3", "9 8", "a b", "1 99999"}) {
    EXPECT_EQ(ParsePortRangeSetting(text), PortSpan()) << text;
  }
  EXPECT_EQ(ParseReservedPorts("8080,60000-60031\n"),
            (std::vector<PortSpan>{{8080, 8080}, {60000, 60031}}));
  EXPECT_EQ(ParseReservedPorts("\n"), std::vector<PortSpan>());
  EXPECT_EQ(ParseReservedPorts("x,9-8,1-99999,-,7"), (std::vector<PortSpan>{{7, 7}}));
}

TEST(ReservedPorts, WhatTheKernelMayGiveAwayIsTheRangeWithoutWhatIsReserved) {
  EXPECT_EQ(OpenToConnections({{32768, 60999}, {}}, kBlocks), (PortSpan{60000, 60999}));
  EXPECT_EQ(OpenToConnections({{32768, 60999}, {{60000, 60031}}}, kBlocks),
            (PortSpan{60032, 60999}));
  EXPECT_EQ(OpenToConnections({{32768, 60999}, {{59000, 60999}}}, kBlocks), PortSpan());
  EXPECT_EQ(OpenToConnections({{32768, 59999}, {}}, kBlocks), PortSpan());
  EXPECT_EQ(OpenToConnections({}, kBlocks), PortSpan());
  EXPECT_EQ(OpenToConnections({{1024, 65535}, {}}, kBlocks), kBlocks);
}

TEST(ReservedPorts, TheCommandKeepsWhatIsReserved) {
  EXPECT_EQ(ReserveCommand({{32768, 60999}, {{8080, 8080}, {60000, 60031}}}, kBlocks),
            "sysctl -w net.ipv4.ip_local_reserved_ports=8080,60000-65535");
  EXPECT_EQ(ReserveCommand({}, kBlocks), "sysctl -w net.ipv4.ip_local_reserved_ports=60000-65535");
}

}  // namespace
}  // namespace muster::common
