// Measures NVIDIA's devices through NVML. Every NVML function may be missing or unsupported; then
// its value is absent.
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "worker/sampling/device_meter.h"

namespace muster::worker {
namespace {

// The part of NVML's C interface that is used, so that building does not need nvml.h. Source: NVML
// API reference.
using NvmlHandle = void*;
using NvmlEvents = void*;
struct NvmlUse {
  unsigned gpu, memory;  // percent of the last sample period
};
struct NvmlBytes {
  unsigned long long total, free, used;
};
struct NvmlEvent {
  NvmlHandle device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance, compute_instance;
};
constexpr int kOk = 0;
constexpr unsigned kGpuSensor = 0;
constexpr unsigned kSmClock = 1;
constexpr unsigned kUncorrected = 1;
constexpr unsigned kSinceDriverLoad = 0;
constexpr unsigned long long kXidEvent = 0x8;
constexpr int kEventsPerLookMax = 64;

struct ThrottleReason {
  unsigned long long bits;
  const char* name;
};
// Without 0x1 (idle) and 0x100 (a display setting), which do not slow down a working device.
constexpr ThrottleReason kThrottleReasons[] = {
    {0x4, "power"},        {0x20 | 0x40, "thermal"}, {0x8, "hardware"},
    {0x80, "power brake"}, {0x2, "clock setting"},   {0x10, "sync boost"},
};

struct NvmlMeasures {
  int (*init)() = nullptr;
  int (*handle)(unsigned, NvmlHandle*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*minor)(NvmlHandle, unsigned*) = nullptr;
  int (*use)(NvmlHandle, NvmlUse*) = nullptr;
  int (*memory)(NvmlHandle, NvmlBytes*) = nullptr;
  int (*power)(NvmlHandle, unsigned* milliwatts) = nullptr;
  int (*temperature)(NvmlHandle, unsigned sensor, unsigned*) = nullptr;
  int (*clock)(NvmlHandle, unsigned type, unsigned* mhz) = nullptr;
  int (*max_clock)(NvmlHandle, unsigned type, unsigned* mhz) = nullptr;
  int (*throttle)(NvmlHandle, unsigned long long*) = nullptr;
  int (*errors)(NvmlHandle, unsigned type, unsigned counter, unsigned long long*) = nullptr;
  int (*events)(NvmlEvents*) = nullptr;
  int (*subscribe)(NvmlHandle, unsigned long long types, NvmlEvents) = nullptr;
  int (*wait)(NvmlEvents, NvmlEvent*, unsigned timeout_ms) = nullptr;

  // False if a function that everything else needs is missing.
  bool Load(void* library) {
    const auto find = [library](const char* symbol, auto* function) {
      *reinterpret_cast<void**>(function) = dlsym(library, symbol);
      return *function != nullptr;
    };
    find("nvmlDeviceGetMinorNumber", &minor);
    find("nvmlDeviceGetUtilizationRates", &use);
    find("nvmlDeviceGetMemoryInfo", &memory);
    find("nvmlDeviceGetPowerUsage", &power);
    find("nvmlDeviceGetTemperature", &temperature);
    find("nvmlDeviceGetClockInfo", &clock);
    find("nvmlDeviceGetMaxClockInfo", &max_clock);
    // Newer drivers rename it but keep the old name.
    find("nvmlDeviceGetCurrentClocksThrottleReasons", &throttle);
    find("nvmlDeviceGetTotalEccErrors", &errors);
    find("nvmlEventSetCreate", &events);
    find("nvmlDeviceRegisterEvents", &subscribe);
    find("nvmlEventSetWait_v2", &wait);
    return find("nvmlInit_v2", &init) && find("nvmlDeviceGetCount_v2", &count) &&
           find("nvmlDeviceGetHandleByIndex_v2", &handle);
  }
};

class NvidiaMeter final : public DeviceMeter {
 public:
  explicit NvidiaMeter(const NvmlMeasures& nvml) : nvml_(nvml) {
    unsigned count = 0;
    if (nvml_.count(&count) != kOk) return;
    const bool counts_faults = nvml_.events != nullptr && nvml_.subscribe != nullptr &&
                               nvml_.wait != nullptr && nvml_.events(&events_) == kOk;
    for (unsigned i = 0; i < count; ++i) {
      NvmlHandle handle = nullptr;
      if (nvml_.handle(i, &handle) != kOk) continue;
      unsigned minor = i;
      if (nvml_.minor != nullptr) nvml_.minor(handle, &minor);
      Device& device = devices_[i];
      device.handle = handle;
      device.counts_faults = counts_faults && nvml_.subscribe(handle, kXidEvent, events_) == kOk;
      index_of_file_[minor] = i;
    }
  }

  void Measure(uint32_t index, v1::DeviceSample* sample) override {
    const auto found = devices_.find(index);
    if (found == devices_.end()) return;
    MeasureWork(found->second.handle, sample);
    MeasureClocks(found->second.handle, sample);
    MeasureFaults(found->second, sample);
  }

  bool IndexOfFile(uint32_t number, uint32_t* index) override {
    const auto found = index_of_file_.find(number);
    if (found == index_of_file_.end()) return false;
    *index = found->second;
    return true;
  }

 private:
  struct Device {
    NvmlHandle handle = nullptr;
    bool counts_faults = false;
    uint64_t faults = 0;  // guarded by faults_mutex_, as is the next
    uint32_t last_fault = 0;
  };

  void MeasureWork(NvmlHandle device, v1::DeviceSample* sample) const {
    NvmlUse use{};
    if (nvml_.use != nullptr && nvml_.use(device, &use) == kOk) {
      sample->set_utilization(static_cast<float>(use.gpu) / 100);
    }
    NvmlBytes bytes{};
    if (nvml_.memory != nullptr && nvml_.memory(device, &bytes) == kOk) {
      sample->set_memory_used_bytes(bytes.used);
      sample->set_memory_total_bytes(bytes.total);
    }
    unsigned value = 0;
    if (nvml_.power != nullptr && nvml_.power(device, &value) == kOk) {
      sample->set_power_watts(static_cast<float>(value) / 1'000);
    }
    if (nvml_.temperature != nullptr && nvml_.temperature(device, kGpuSensor, &value) == kOk) {
      sample->set_temperature_celsius(static_cast<float>(value));
    }
  }

  void MeasureClocks(NvmlHandle device, v1::DeviceSample* sample) const {
    unsigned mhz = 0;
    if (nvml_.clock != nullptr && nvml_.clock(device, kSmClock, &mhz) == kOk) {
      sample->set_clock_mhz(mhz);
    }
    if (nvml_.max_clock != nullptr && nvml_.max_clock(device, kSmClock, &mhz) == kOk) {
      sample->set_max_clock_mhz(mhz);
    }
    unsigned long long bits = 0;
    if (nvml_.throttle == nullptr || nvml_.throttle(device, &bits) != kOk) return;
    for (const ThrottleReason& reason : kThrottleReasons) {
      if ((bits & reason.bits) != 0) sample->add_throttled_by(reason.name);
    }
  }

  void MeasureFaults(Device& device, v1::DeviceSample* sample) {
    unsigned long long errors = 0;
    if (nvml_.errors != nullptr &&
        nvml_.errors(device.handle, kUncorrected, kSinceDriverLoad, &errors) == kOk) {
      sample->set_uncorrected_errors(errors);
    }
    if (!device.counts_faults) return;
    const std::lock_guard<std::mutex> lock(faults_mutex_);
    TakeFaults();
    sample->set_xid_count(device.faults);
    if (device.faults > 0) sample->set_last_xid(device.last_fault);
  }

  // Takes the faults of all devices, which share one queue.
  void TakeFaults() {
    NvmlEvent event{};
    for (int i = 0; i < kEventsPerLookMax && nvml_.wait(events_, &event, 0) == kOk; ++i) {
      for (auto& [index, device] : devices_) {
        if (device.handle != event.device) continue;
        ++device.faults;
        device.last_fault = static_cast<uint32_t>(event.data);
      }
    }
  }

  const NvmlMeasures nvml_;
  NvmlEvents events_ = nullptr;
  std::map<uint32_t, Device> devices_;
  std::map<uint32_t, uint32_t> index_of_file_;
  std::mutex faults_mutex_;  // guards the event queue and what was counted
};

}  // namespace

std::unique_ptr<DeviceMeter> OpenNvidiaMeter(const std::string& library) {
  // Never closed: NVML leaves threads and exit handlers behind.
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  NvmlMeasures nvml;
  if (loaded == nullptr || !nvml.Load(loaded) || nvml.init() != kOk) return nullptr;
  return std::make_unique<NvidiaMeter>(nvml);
}

}  // namespace muster::worker
