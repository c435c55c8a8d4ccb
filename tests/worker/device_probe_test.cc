#include "worker/devices/device_probe.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/device_kinds.h"
#include "common/files/files.h"
#include "muster/v1/job.pb.h"

namespace muster::worker {
namespace {

ProbedHost TwoGpus() {
  return {.cores = 4, .devices = {{"gpu", {{0, "A", 100, "GPU-a"}, {2, "B", 200, "GPU-b"}}}}};
}

// "cpu0 cpu1 gpu0": kinds and indexes, or the error.
std::string Resolve(std::string_view text, const ProbedHost& host) {
  const auto devices = ResolveDevices(text, host);
  if (!devices.ok()) return std::string(devices.status().message());
  std::string names;
  for (const muster::v1::Device& device : *devices) {
    names += (names.empty() ? "" : " ") + device.kind() + std::to_string(device.index());
  }
  return names;
}

std::string NvmlBeside() {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, static_cast<size_t>(length));
  return path.substr(0, path.rfind('/')) + "/libfake-nvidia-ml.so";
}

TEST(DeviceProbe, ByDefaultEveryCoreIsASlotAndEveryGpuADevice) {
  EXPECT_EQ(Resolve("", TwoGpus()), "cpu0 cpu1 cpu2 cpu3 gpu0 gpu2");
  EXPECT_EQ(Resolve("", ProbedHost{.cores = 2}), "cpu0 cpu1");
}

TEST(DeviceProbe, CountsAndListsAreTakenAsGiven) {
  EXPECT_EQ(Resolve("cpu:2", TwoGpus()), "cpu0 cpu1");
  EXPECT_EQ(Resolve("cpu:64", ProbedHost{.cores = 2}).size(), 4u * 10 + 5u * 54 + 63);
  EXPECT_EQ(Resolve("gpu", TwoGpus()), "gpu0 gpu2");
  EXPECT_EQ(Resolve("GPU:1, cpu", TwoGpus()), "gpu0 cpu0 cpu1 cpu2 cpu3");
  EXPECT_EQ(Resolve("npu:2", ProbedHost{.cores = 1, .devices = {{"npu", {{0}, {4}}}}}),
            "npu0 npu4");
}

TEST(DeviceProbe, AGpuKeepsItsFacts) {
  const auto devices = ResolveDevices("gpu", TwoGpus());
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(devices->at(1).model(), "B");
  EXPECT_EQ(devices->at(1).memory_bytes(), 200u);
  EXPECT_EQ(devices->at(1).uuid(), "GPU-b");
}

TEST(DeviceProbe, MistakesAreNamedWithTheirFix) {
  EXPECT_EQ(Resolve("tpu:2", TwoGpus()),
            "'tpu:2' in --devices is not a kind of device; fix: give cpu, gpu or npu, each "
            "with an optional count like cpu:2, separated by commas");
  EXPECT_EQ(Resolve("cpu:two", TwoGpus()),
            "the count in 'cpu:two' in --devices is not a number from 0 to 100000; fix: give cpu, "
            "gpu or npu, each with an optional count like cpu:2, separated by commas");
  EXPECT_EQ(Resolve("cpu:-1", TwoGpus()).substr(0, 16), "the count in 'cp");
  EXPECT_EQ(Resolve("cpu:1000000", TwoGpus()).substr(0, 16), "the count in 'cp");
  EXPECT_EQ(Resolve("cpu:2,,gpu", TwoGpus()).substr(0, 2), "''");
  EXPECT_EQ(Resolve("cpu:2,cpu:3", TwoGpus()),
            "'cpu' appears twice in --devices; fix: name each kind once, e.g. cpu:2,gpu:1");
  EXPECT_EQ(Resolve("gpu:3", TwoGpus()),
            "--devices asks for 3 gpu devices, this node has 2; fix: ask for fewer, or install the "
            "driver");
  EXPECT_EQ(Resolve("gpu", ProbedHost{}),
            "--devices asks for gpu devices, this node has 0; fix: ask for fewer, or install the "
            "driver");
  EXPECT_EQ(Resolve("cpu:0", TwoGpus()),
            "--devices 'cpu:0' leaves this node without devices; fix: use e.g. cpu:2");
}

TEST(DeviceProbe, NvmlDevicesKeepTheirIndexWhenAnotherOneIsLost) {
  EXPECT_EQ(FindNvidiaDriver(NvmlBeside()).driver, "550.54.15");
  EXPECT_EQ(FindNvidiaDriver(NvmlBeside()).cuda, "12.4");
  const std::vector<FoundDevice> gpus = FindNvidiaGpus(NvmlBeside());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].index, 0u);
  EXPECT_EQ(gpus[1].index, 2u);
  EXPECT_EQ(gpus[1].model, "NVIDIA Fake 9000");
  EXPECT_EQ(gpus[1].uuid, "GPU-0000-2");
  EXPECT_EQ(gpus[1].memory_bytes, 24ull << 30);
}

TEST(DeviceProbe, WithoutTheLibraryThereAreNoGpus) {
  EXPECT_EQ(FindNvidiaDriver("libc.so.6").driver, "");
  EXPECT_TRUE(FindNvidiaGpus("libmuster-has-no-such-library.so.1").empty());
  EXPECT_TRUE(FindNvidiaGpus("libc.so.6").empty());  // a library, but not NVML
}

TEST(DeviceProbe, AscendDevicesAreTheNumberedNodes) {
  char name[] = "/tmp/mdev-XXXXXX";
  const std::string directory = mkdtemp(name);
  for (const char* node : {"/davinci0", "/davinci10", "/davinci2", "/davinci_manager"}) {
    ASSERT_TRUE(common::WriteFileDurably(directory + node, "").ok());
  }
  std::vector<uint32_t> indexes;
  for (const FoundDevice& npu : FindDeviceFiles("davinci", directory)) indexes.push_back(npu.index);
  EXPECT_EQ(indexes, (std::vector<uint32_t>{0, 2, 10}));
  EXPECT_TRUE(FindDeviceFiles("davinci", directory + "/none").empty());
  EXPECT_TRUE(common::RemoveTree(directory).ok());
}

TEST(DeviceProbe, EveryKindOfAcceleratorIsLookedFor) {
  std::vector<std::string_view> kinds, looked_for;
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    if (!kind.is_host) kinds.push_back(kind.name);
  }
  for (const DeviceDiscovery& row : DeviceDiscoveries()) looked_for.push_back(row.kind);
  EXPECT_EQ(looked_for, kinds);
}

TEST(DeviceProbe, CoresAndMemoryOfThisHostAreWithinItsBounds) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  EXPECT_GE(UsableCores(), 1u);
  EXPECT_LE(UsableCores(), UsableProcessors());
  EXPECT_LE(UsableProcessors(), static_cast<uint32_t>(processors));
  EXPECT_GT(UsableMemoryBytes(), 16u << 20);
}

}  // namespace
}  // namespace muster::worker
