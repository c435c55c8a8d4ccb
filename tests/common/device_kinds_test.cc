// The rows of device kinds, and how words resolve to them.
#include "common/device_kinds.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::common {
namespace {

TEST(DeviceKindsTest, OneIsTheHostAndNoTwoShareAWord) {
  std::set<std::string> words;
  int hosts = 0;
  for (const DeviceKind& kind : DeviceKinds()) {
    hosts += kind.is_host ? 1 : 0;
    EXPECT_EQ(FindDeviceKind(kind.name), &kind);
    EXPECT_EQ(FindSpelledDeviceKind(kind.name), &kind);
    EXPECT_EQ(FindAccelerateType(kind.accelerate_type),
              kind.accelerate_type.empty() ? nullptr : &kind);
    for (const std::string_view word : {kind.name, kind.plural, kind.visible_variable}) {
      EXPECT_TRUE(word.empty() || words.emplace(word).second) << word;
    }
    EXPECT_EQ(kind.visible_variable.empty(), kind.is_host) << kind.name;
  }
  EXPECT_EQ(hosts, 1);
  EXPECT_TRUE(IsHostKind("cpu"));
  EXPECT_FALSE(IsHostKind("gpu"));
  EXPECT_TRUE(IsCudaKind("gpu"));
  EXPECT_FALSE(IsCudaKind("npu"));
  EXPECT_EQ(DeviceKindNames(" or "), "cpu, gpu or npu");
  EXPECT_EQ(DeviceKindNames(", ", "`"), "`cpu`, `gpu`, `npu`");
}

TEST(DeviceKindsTest, AreFoundByOtherWordsAndByTheirModels) {
  EXPECT_EQ(FindSpelledDeviceKind("cuda")->name, "gpu");
  EXPECT_EQ(FindSpelledDeviceKind("ascend")->name, "npu");
  EXPECT_EQ(FindSpelledDeviceKind("cud"), nullptr);
  EXPECT_EQ(FindSpelledDeviceKind(""), nullptr);
  EXPECT_EQ(FindDeviceKind("cuda"), nullptr);
  EXPECT_EQ(FindDeviceModel("h100").kind->name, "gpu");
  EXPECT_EQ(FindDeviceModel("910b").kind->name, "npu");
  EXPECT_EQ(FindDeviceModel("910b").model, "910b");
  EXPECT_EQ(FindDeviceModel("npu-910b").kind->name, "npu");
  EXPECT_EQ(FindDeviceModel("npu-910b").model, "910b");
  EXPECT_EQ(FindAccelerateType(""), nullptr);
}

TEST(DeviceKindsTest, TheirPortsAreKnown) {
  for (const uint32_t port : {60000u, 60031u}) EXPECT_TRUE(IsDevicePort(port)) << port;
  for (const uint32_t port : {0u, 59999u, 60032u, 65536u + 60000u}) {
    EXPECT_FALSE(IsDevicePort(port)) << port;
  }
  for (const uint32_t port : {60000u, 60032u, 65535u}) EXPECT_TRUE(IsInDeviceBlocks(port)) << port;
  for (const uint32_t port : {0u, 59999u, 65536u}) EXPECT_FALSE(IsInDeviceBlocks(port)) << port;
}

TEST(DeviceKindsTest, ASeriesIsFoundByTheModelThatANodeReports) {
  const std::pair<const char*, const char*> models[] = {{"910A", "Atlas training (910A)"},
                                                        {"Ascend910ProB", "Atlas training (910A)"},
                                                        {"910B", "Atlas training (910A)"},
                                                        {"910B2", "Atlas A2"},
                                                        {"910B4-1", "Atlas A2"},
                                                        {"Ascend910_9391", "Atlas A3"},
                                                        {"310P3", "Atlas 300I Duo"},
                                                        {"Ascend950PR", "Ascend 950"},
                                                        {"Ascend910_9599", "Ascend 950"},
                                                        {"Ascend910", ""},
                                                        {"310B1", ""},
                                                        {"", ""}};
  for (const auto& [model, name] : models) {
    const DeviceSeries* series = FindDeviceSeries(FindDeviceKind("npu")->series, model);
    EXPECT_EQ(series == nullptr ? "" : series->name, name) << model;
  }
  EXPECT_EQ(FindDeviceSeries(FindDeviceKind("gpu")->series, "910A"), nullptr);
}

}  // namespace
}  // namespace muster::common
