// A libnvidia-ml.so with two devices and, between them, one without a handle: loaded by
// device_probe and the sampler in their tests. The last device supports little.
#include <cstdio>
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "550.54.15");
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12'040;
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index == 1) return 15;  // NVML_ERROR_GPU_IS_LOST
  *device = reinterpret_cast<void*>(static_cast<unsigned long>(index) + 1);
  return 0;
}

int nvmlDeviceGetName(void*, char* name, unsigned length) {
  std::snprintf(name, length, "NVIDIA Fake 9000");
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  std::snprintf(uuid, length, "GPU-0000-%lu", reinterpret_cast<unsigned long>(device) - 1);
  return 0;
}

int nvmlDeviceGetMemoryInfo(void*, void* memory) {
  const unsigned long long sizes[3] = {24ull << 30, 23ull << 30, 1ull << 30};
  std::memcpy(memory, sizes, sizeof sizes);
  return 0;
}

constexpr int kNotSupported = 3;
// Devices are their index plus one.
static bool IsFirst(void* device) { return reinterpret_cast<unsigned long>(device) == 1; }

int nvmlDeviceGetMinorNumber(void* device, unsigned* minor) {
  *minor = static_cast<unsigned>(reinterpret_cast<unsigned long>(device)) + 4;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, void* use) {
  const unsigned percent[2] = {83, 40};
  if (IsFirst(device)) std::memcpy(use, percent, sizeof percent);
  return IsFirst(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 301'500;
  return IsFirst(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetTemperature(void* device, unsigned, unsigned* celsius) {
  *celsius = 71;
  return IsFirst(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetClockInfo(void* device, unsigned, unsigned* mhz) {
  *mhz = 1'410;
  return IsFirst(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetMaxClockInfo(void* device, unsigned, unsigned* mhz) {
  *mhz = 1'980;
  return IsFirst(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x1 | 0x4 | 0x40;  // idle, power, hardware thermal
  return IsFirst(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetTotalEccErrors(void* device, unsigned type, unsigned, unsigned long long* count) {
  *count = type == 1 ? 3 : 1'000;  // uncorrected, corrected
  return IsFirst(device) ? 0 : kNotSupported;
}

static int events_waiting = 0;
int nvmlEventSetCreate(void** events) {
  *events = &events_waiting;
  events_waiting = 1;
  return 0;
}
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) {
  return types == 0x8 ? 0 : kNotSupported;
}
int nvmlEventSetWait_v2(void* events, void* event, unsigned timeout_ms) {
  int& waiting = *static_cast<int*>(events);
  if (timeout_ms != 0 || waiting == 0) return 10;  // NVML_ERROR_TIMEOUT
  --waiting;
  struct {
    void* device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
  } xid = {reinterpret_cast<void*>(1ul), 0x8, 79, 0, 0};
  std::memcpy(event, &xid, sizeof xid);
  return 0;
}

}  // extern "C"
