// What is read of NPUs. The tables are in the form of npu-smi 25.2 (Atlas A2) and 24.1 (Atlas A3, which has two
// chips on a card).
#include "worker/devices/ascend_npus.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::worker {
namespace {

constexpr char kHead[] = R"(
+------------------------------------------------------------------------------------------------+
| npu-smi 25.2.0                   Version: 25.2.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
)";
constexpr char kProcesses[] = R"(
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 1       0                 | 3148          | python                   | 100                     |
)";

std::string Text(const std::map<uint32_t, FoundDevice>& found) {
  std::string text;
  for (const auto& [index, device] : found) {
    text += std::to_string(index) + "=" + device.model + "/" +
            std::to_string(device.memory_bytes >> 20) + " ";
  }
  return text;
}

TEST(AscendNpus, EachLineOfTheTableIsADeviceWithItsModelAndMemory) {
  EXPECT_EQ(Text(ParseNpuSmi(std::string(kHead) + R"(
| 0     910B4-1             | OK            | 91.3        33                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3197 / 65536         |
+===========================+===============+====================================================+
| 1     910B4-1             | OK            | 88.1        32                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3197 / 32768         |
)" + kProcesses)),
            "0=910B4-1/65536 1=910B4-1/32768 ");
}

TEST(AscendNpus, OnACardWithTwoChipsTheIndexIsThePhysicalOne) {
  EXPECT_EQ(Text(ParseNpuSmi(std::string(kHead) + R"(
| 0     Ascend910           | OK            | 178.5       37                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3129 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           37                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2879 / 65536         |
)")),
            "0=Ascend910/65536 1=Ascend910/65536 ");
}

TEST(AscendNpus, WhatIsNotSuchATableIsSkipped) {
  EXPECT_EQ(Text(ParseNpuSmi("")), "");
  EXPECT_EQ(Text(ParseNpuSmi("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi model "
                             "initialized failed, because the device is used. ret is -8020")),
            "");
  EXPECT_EQ(Text(ParseNpuSmi("| 0 | 0000:C1:00.0 | 0 / x |\n| 9 99999999 | 0:0 | 1 / 2 |\n"
                             "| 0 \x01 | OK | 1 |\n| 0 3 | 0:0 | 1 / 99999999999 |\n")),
            "0=/0 3=/0 ");
}

TEST(AscendNpus, AddressesAreThoseOfHccnConf) {
  const auto found = ParseHccnConf(
      "address_0=192.168.100.101\nnetmask_0=255.255.255.0\n address_3=fd00::3 \r\n"
      "address_4=name\naddress_x=10.0.0.1\naddress_99999999=10.0.0.1\naddress_5\nsend_arp_status_0="
      "1");
  EXPECT_EQ(found, (std::map<uint32_t, std::string>{{0, "192.168.100.101"}, {3, "fd00::3"}}));
}

}  // namespace
}  // namespace muster::worker
