// NVIDIA's devices as NVML numbers them. The library is loaded if present.
#include <dlfcn.h>

#include <utility>

#include "common/text/strings.h"
#include "worker/devices/device_discovery.h"

namespace muster::worker {
namespace {

// The part of NVML's C interface that is used, so that building does not need nvml.h. Source: NVML
// API reference.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kNvmlSuccess = 0;
constexpr unsigned kNvmlTextBytes = 96;
constexpr int kCudaMajor = 1'000;  // CUDA 12.4 is 12040
constexpr int kCudaMinor = 10;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;

  // Loads every symbol, or returns false.
  bool Load(void* library) {
    const auto find = [library](const char* symbol, auto* function) {
      *reinterpret_cast<void**>(function) = dlsym(library, symbol);
      return *function != nullptr;
    };
    return find("nvmlInit_v2", &init) && find("nvmlShutdown", &shutdown) &&
           find("nvmlDeviceGetCount_v2", &count) &&
           find("nvmlDeviceGetHandleByIndex_v2", &handle) && find("nvmlDeviceGetName", &name) &&
           find("nvmlDeviceGetUUID", &uuid) && find("nvmlDeviceGetMemoryInfo", &memory);
  }
};

}  // namespace

std::vector<FoundDevice> FindNvidiaGpus(const std::string& library) {
  std::vector<FoundDevice> gpus;
  // Never closed: NVML leaves threads and exit handlers behind.
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Nvml nvml;
  if (loaded == nullptr || !nvml.Load(loaded) || nvml.init() != kNvmlSuccess) return gpus;
  unsigned count = 0;
  if (nvml.count(&count) != kNvmlSuccess) count = 0;
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device = nullptr;
    // A device that fell off the bus has no handle; the others keep their indexes.
    if (nvml.handle(i, &device) != kNvmlSuccess) continue;
    FoundDevice gpu;
    gpu.index = i;
    char text[kNvmlTextBytes] = {};
    if (nvml.name(device, text, sizeof text) == kNvmlSuccess) gpu.model = text;
    if (nvml.uuid(device, text, sizeof text) == kNvmlSuccess) gpu.uuid = text;
    NvmlMemory memory{};
    if (nvml.memory(device, &memory) == kNvmlSuccess) gpu.memory_bytes = memory.total;
    gpus.push_back(std::move(gpu));
  }
  nvml.shutdown();
  return gpus;
}

DriverVersion FindNvidiaDriver(const std::string& library) {
  DriverVersion found;
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Nvml nvml;
  if (loaded == nullptr || !nvml.Load(loaded) || nvml.init() != kNvmlSuccess) return found;
  int (*driver)(char*, unsigned) = nullptr;
  int (*cuda)(int*) = nullptr;
  *reinterpret_cast<void**>(&driver) = dlsym(loaded, "nvmlSystemGetDriverVersion");
  *reinterpret_cast<void**>(&cuda) = dlsym(loaded, "nvmlSystemGetCudaDriverVersion_v2");
  char text[kNvmlTextBytes] = {};
  if (driver != nullptr && driver(text, sizeof text) == kNvmlSuccess) found.driver = text;
  int number = 0;
  if (cuda != nullptr && cuda(&number) == kNvmlSuccess && number >= kCudaMajor) {
    found.cuda = common::StrCat(number / kCudaMajor, ".", number % kCudaMajor / kCudaMinor);
  }
  nvml.shutdown();
  return found;
}

}  // namespace muster::worker
