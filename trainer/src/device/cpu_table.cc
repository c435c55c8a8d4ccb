// The CPU's table: LibTorch's generator, the process's memory, collectives through Gloo.
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <map>

#include "device/device_driver.h"
#include "device/gloo_dtypes.h"
#include "muster/device/device_plugin_torch.h"

namespace muster {
namespace {

// Parses lines "Name: NUMBER kB" of a /proc file; values in bytes.
std::map<std::string, int64_t> kilobyte_lines(const char* path) {
  std::map<std::string, int64_t> values;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.find(" kB") == std::string::npos) continue;
    values[line.substr(0, colon)] = std::strtoll(line.c_str() + colon + 1, nullptr, 10) * 1024;
  }
  return values;
}

int64_t value_or_unknown(const std::map<std::string, int64_t>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? -1 : found->second;
}

// LibTorch does not count the memory of CPU tensors, so `reserved` is the process's resident
// memory.
int memory(int32_t /*index*/, MusterDeviceMemory* memory, MusterDeviceError* error) {
  return device_status(error, [&] {
    const auto process = kilobyte_lines("/proc/self/status");
    const auto machine = kilobyte_lines("/proc/meminfo");
    *memory = {.allocated = -1,
               .allocated_peak = -1,
               .reserved = value_or_unknown(process, "VmRSS"),
               .reserved_peak = value_or_unknown(process, "VmHWM"),
               .free = value_or_unknown(machine, "MemAvailable"),
               .total = value_or_unknown(machine, "MemTotal")};
  });
}

// Source: proc_pid_clear_refs(5): writing 5 resets VmHWM to the current size.
int reset_peak_memory(int32_t /*index*/, MusterDeviceError* error) {
  return device_status(error, [] {
    std::ofstream file("/proc/self/clear_refs");
    file << "5" << std::flush;
    if (!file) throw std::runtime_error("cannot write /proc/self/clear_refs");
  });
}

int count(int32_t* count, MusterDeviceError* /*error*/) {
  *count = INT32_MAX;
  return 0;
}

int set_current(int32_t /*index*/, MusterDeviceError* /*error*/) { return 0; }

const char* cpu_series(int32_t /*index*/) { return "Gloo"; }

}  // namespace

const MusterDeviceTable& cpu_device_table() {
  using Generator = TorchGenerator<c10::kCPU>;
  static const MusterDeviceTable table = {.abi_version = MUSTER_DEVICE_ABI,
                                          .torch_version = TORCH_VERSION,
                                          .name = "cpu",
                                          .device_type = static_cast<int32_t>(c10::kCPU),
                                          .init = nullptr,
                                          .finalize = nullptr,
                                          .count = &count,
                                          .set_current = &set_current,
                                          .synchronize = nullptr,
                                          .series = &cpu_series,
                                          .collective_dtypes = &gloo_dtypes,
                                          .make_backend = nullptr,
                                          .seed = &Generator::seed,
                                          .random_state = &Generator::state,
                                          .set_random_state = &Generator::set_state,
                                          .memory = &memory,
                                          .reset_peak_memory = &reset_peak_memory,
                                          .empty_cache = nullptr};
  return table;
}

}  // namespace muster
