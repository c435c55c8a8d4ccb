// The drivers of this process, and choosing among them; see device_driver.h.
#include "device/device_driver.h"

#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/environment.h"
#include "device/plugin_library.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// A plug-in's libraries register with LibTorch and cannot be unloaded, so opened devices belong to
// the process, not to an Accelerator.
class Drivers {
 public:
  // Never destroyed: tensors and threads may outlive static objects.
  static Drivers& drivers() {
    static Drivers* const only = new Drivers;
    return *only;
  }

  DeviceDriver& open(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(opened_.begin(), opened_.end(),
                                    [&](const auto& driver) { return driver->name() == name; });
    if (known != opened_.end()) return use(**known);
    if (name == "cpu") return add(cpu_device_table(), "");
    if (name == "cuda") return add(cuda_device_table(), "");
    const LoadedPlugin plugin = load_device_plugin(name, TORCH_VERSION, plugin_directories());
    return add(*plugin.table, plugin.path);
  }

  DeviceDriver* in_use(at::DeviceType type) {
    const std::lock_guard lock(mutex_);
    return in_use_.at(static_cast<size_t>(type));
  }

 private:
  DeviceDriver& add(const MusterDeviceTable& table, std::string origin) {
    opened_.push_back(std::make_unique<DeviceDriver>(table, std::move(origin)));
    if (table.finalize != nullptr) {
      // exit() runs atexit handlers and static destructors in reverse order of registration, so
      // this one runs before those of the libraries that the plug-in has loaded by now.
      finalizers_.push_back(table.finalize);
      std::atexit([] { drivers().finalize_last(); });
    }
    return use(*opened_.back());
  }
  DeviceDriver& use(DeviceDriver& driver) {
    in_use_.at(static_cast<size_t>(driver.type())) = &driver;
    return driver;
  }
  void finalize_last() {
    void (*finalize)(void) = nullptr;
    {
      const std::lock_guard lock(mutex_);
      finalize = finalizers_.back();
      finalizers_.pop_back();
    }
    finalize();
  }

  std::mutex mutex_;  // guards the members below
  std::vector<std::unique_ptr<DeviceDriver>> opened_;
  std::vector<void (*)(void)> finalizers_;  // called in reverse order
  std::array<DeviceDriver*, at::COMPILE_TIME_MAX_DEVICE_TYPES> in_use_{};
};

bool has_cuda() {
  int32_t count = 0;
  MusterDeviceError error;
  return cuda_device_table().count(&count, &error) == 0 && count > 0;
}

std::string chosen_name(const DeviceChoice& choice) {
  if (!choice.name.empty()) {
    if (choice.cpu && choice.name != "cpu") {
      throw std::invalid_argument("AcceleratorOptions: cpu is true and device is '" + choice.name +
                                  "': set only one of them");
    }
    return choice.name;
  }
  if (choice.cpu) return "cpu";
  if (const std::string name = environment("MUSTER_DEVICE"); !name.empty()) return name;
  if (is_true(environment("ACCELERATE_USE_CPU"))) return "cpu";
  return has_cuda() ? "cuda" : "cpu";
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

DeviceDriver::DeviceDriver(const MusterDeviceTable& table, std::string origin)
    : table_(table), origin_(std::move(origin)) {
  const bool gloo_moves = type() == at::kCPU || type() == at::kCUDA;
  if (!has_backend() && !gloo_moves) {
    throw DeviceError("device '" + name() + "': the plug-in " + origin_ +
                      " is incompatible: its table has no make_backend, and Gloo supports CPU " +
                      "and CUDA tensors only, not " + c10::DeviceTypeName(type(), true));
  }
  if (table_.init != nullptr) {
    check("init", [&](MusterDeviceError* error) { return table_.init(error); });
  }
}

// Throws the device's own message, prefixed with the names of the device and the function.
template <typename Call>
void DeviceDriver::check(const char* what, const Call& call) const {
  MusterDeviceError error{};
  if (call(&error) == 0) return;
  error.text[sizeof(error.text) - 1] = '\0';
  const std::string origin = origin_.empty() ? "" : " (" + origin_ + ")";
  throw DeviceError("device '" + name() + "'" + origin + ": " + what +
                    " failed: " + (error.text[0] == '\0' ? "no reason given" : error.text));
}

int32_t DeviceDriver::index_of(at::Device device) const {
  return device.has_index() ? device.index() : current_;
}

int DeviceDriver::count() const {
  int32_t count = 0;
  check("count", [&](MusterDeviceError* error) { return table_.count(&count, error); });
  return count;
}

void DeviceDriver::set_current(int index) {
  check("set_current", [&](MusterDeviceError* error) { return table_.set_current(index, error); });
  current_ = index;
}

void DeviceDriver::synchronize(at::Device device) const {
  if (table_.synchronize == nullptr) return;
  check("synchronize",
        [&](MusterDeviceError* error) { return table_.synchronize(index_of(device), error); });
}

std::string DeviceDriver::series(at::Device device) const {
  const char* const series = table_.series(index_of(device));
  return series == nullptr ? "unknown" : series;
}

uint32_t DeviceDriver::collective_dtypes(at::Device device, MusterCollective collective) const {
  return table_.collective_dtypes(index_of(device), collective);
}

c10::intrusive_ptr<c10d::Backend> DeviceDriver::make_backend(const BackendRequest& request) const {
  const std::string network = join(request.network);
  const MusterBackendRequest plain = {.store = &request.store,
                                      .rank = request.rank,
                                      .world_size = request.world_size,
                                      .device_index = index_of(request.device),
                                      .timeout_ms = request.timeout.count(),
                                      .network = network.c_str(),
                                      .network_is_interfaces = request.network_is_interfaces};
  c10::intrusive_ptr<c10d::Backend> backend;
  check("make_backend",
        [&](MusterDeviceError* error) { return table_.make_backend(&plain, &backend, error); });
  if (!backend) {
    throw DeviceError("device '" + name() + "': make_backend returned 0 but no backend");
  }
  return backend;
}

void DeviceDriver::seed(at::Device device, uint64_t seed) const {
  check("seed",
        [&](MusterDeviceError* error) { return table_.seed(index_of(device), seed, error); });
}

at::Tensor DeviceDriver::random_state(at::Device device) const {
  const int32_t index = index_of(device);
  uint64_t size = 0;
  at::Tensor state;
  check("random_state", [&](MusterDeviceError* error) {
    if (const int status = table_.random_state(index, nullptr, 0, &size, error)) return status;
    state = at::empty({static_cast<int64_t>(size)}, at::kByte);
    return table_.random_state(index, state.mutable_data_ptr<uint8_t>(), size, &size, error);
  });
  return state;
}

void DeviceDriver::set_random_state(at::Device device, const at::Tensor& state) const {
  const at::Tensor bytes = state.to(at::kCPU).contiguous();
  check("set_random_state", [&](MusterDeviceError* error) {
    return table_.set_random_state(index_of(device), bytes.const_data_ptr<uint8_t>(),
                                   bytes.nbytes(), error);
  });
}

MusterDeviceMemory DeviceDriver::memory(at::Device device) const {
  MusterDeviceMemory memory = {-1, -1, -1, -1, -1, -1};
  check("memory",
        [&](MusterDeviceError* error) { return table_.memory(index_of(device), &memory, error); });
  return memory;
}

void DeviceDriver::reset_peak_memory(at::Device device) const {
  if (table_.reset_peak_memory == nullptr) return;
  check("reset_peak_memory", [&](MusterDeviceError* error) {
    return table_.reset_peak_memory(index_of(device), error);
  });
}

void DeviceDriver::empty_cache() const {
  if (table_.empty_cache == nullptr) return;
  check("empty_cache", [&](MusterDeviceError* error) { return table_.empty_cache(error); });
}

DeviceDriver& open_device(const std::string& name) { return Drivers::drivers().open(name); }

const DeviceDriver& device_driver(at::DeviceType type) {
  if (const DeviceDriver* driver = Drivers::drivers().in_use(type); driver != nullptr) {
    return *driver;
  }
  if (type == at::kCPU) return open_device("cpu");
  if (type == at::kCUDA) return open_device("cuda");
  throw DeviceError("no device of this process handles " + c10::DeviceTypeName(type, true) +
                    " tensors: name its plug-in in AcceleratorOptions::device or MUSTER_DEVICE");
}

std::vector<const DeviceDriver*> device_drivers() {
  std::vector<const DeviceDriver*> drivers = {&device_driver(at::kCPU), &device_driver(at::kCUDA)};
  for (size_t type = 0; type < at::COMPILE_TIME_MAX_DEVICE_TYPES; ++type) {
    const DeviceDriver* driver = Drivers::drivers().in_use(static_cast<at::DeviceType>(type));
    if (driver == nullptr || std::find(drivers.begin(), drivers.end(), driver) != drivers.end()) {
      continue;
    }
    drivers.push_back(driver);
  }
  return drivers;
}

bool has_pinned_memory() {
  static const bool has = [] {
    try {
      return at::empty({1}, at::TensorOptions().dtype(at::kByte).pinned_memory(true)).is_pinned();
    } catch (const c10::Error&) {
      return false;
    }
  }();
  return has;
}

at::Device choose_device(const DeviceChoice& choice) {
  DeviceDriver& driver = open_device(chosen_name(choice));
  const int count = driver.count();
  if (choice.local_rank >= count) {
    throw TopologyError("LOCAL_RANK=" + std::to_string(choice.local_rank) +
                        " has no device: " + std::to_string(count) + " of '" + driver.name() +
                        "' are visible; start fewer ranks on this node, make more visible, or " +
                        "set AcceleratorOptions::cpu");
  }
  driver.set_current(choice.local_rank);
  if (driver.type() == at::kCPU) return at::kCPU;
  return at::Device(driver.type(), static_cast<c10::DeviceIndex>(choice.local_rank));
}

}  // namespace muster
