// A libnvidia-ml.so with two devices and, between them, one without a handle: loaded by
// device_probe in its tests.
#include <cstdio>
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

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

}  // extern "C"
