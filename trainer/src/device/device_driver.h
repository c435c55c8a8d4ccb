// The kinds of devices that this process computes on, each behind the table of device_plugin.h: the
// CPU and CUDA, which are built in, and those of plug-ins. Training thread.
#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "muster/base/topology.h"
#include "muster/device/device_plugin.h"

namespace muster {

// What make_backend needs; see MusterBackendRequest.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout{0};
  std::vector<std::string> network;
  bool network_is_interfaces = false;
};

// A table with C++ in front of it: its errors become DeviceError with the device's name.
class DeviceDriver {
 public:
  // `origin`: the plug-in's file, empty for what is built in. Calls the table's init.
  DeviceDriver(const MusterDeviceTable& table, std::string origin);

  std::string name() const { return table_.name; }
  const std::string& origin() const { return origin_; }
  at::DeviceType type() const { return static_cast<at::DeviceType>(table_.device_type); }

  int count() const;
  // The device that this rank computes on, which an at::Device without an index stands for.
  void set_current(int index);
  // Waits for all streams of the device.
  void synchronize(at::Device device) const;

  std::string series(at::Device device) const;
  uint32_t collective_dtypes(at::Device device, MusterCollective collective) const;
  // False: Gloo does the collectives.
  bool has_backend() const { return table_.make_backend != nullptr; }
  // Collective over the ranks of the request.
  c10::intrusive_ptr<c10d::Backend> make_backend(const BackendRequest& request) const;

  void seed(at::Device device, uint64_t seed) const;
  at::Tensor random_state(at::Device device) const;  // uint8 on the CPU
  void set_random_state(at::Device device, const at::Tensor& state) const;

  MusterDeviceMemory memory(at::Device device) const;
  void reset_peak_memory(at::Device device) const;
  void empty_cache() const;

  const MusterDeviceTable& table() const { return table_; }

 private:
  template <typename Call>
  void check(const char* what, const Call& call) const;
  int32_t index_of(at::Device device) const;

  const MusterDeviceTable& table_;
  const std::string origin_;
  int32_t current_ = 0;
};

// The built-in tables: device/cpu_table.cc and cuda_table.cc.
const MusterDeviceTable& cpu_device_table();
const MusterDeviceTable& cuda_device_table();

// The device of that name: "cpu", "cuda", or that of a plug-in, which is loaded and initialised at
// its first use and stays until the process ends. From now on it is the driver of its type of
// tensors (device_driver below). Throws DeviceError (see plugin_library.h).
DeviceDriver& open_device(const std::string& name);

// What drives tensors of this type in this process: the device that open_device opened last for
// it, else the built-in one. Throws DeviceError for a type that has none.
const DeviceDriver& device_driver(at::DeviceType type);
inline const DeviceDriver& device_driver(at::Device device) { return device_driver(device.type()); }

// One for each type of tensors that has a driver.
std::vector<const DeviceDriver*> device_drivers();

struct DeviceChoice {
  std::string name;  // AcceleratorOptions::device
  bool cpu = false;  // AcceleratorOptions::cpu
  int local_rank = 0;
};
// Opens the device that was asked for: by `name`, `cpu`, MUSTER_DEVICE or ACCELERATE_USE_CPU, in
// this order; where nobody asks, CUDA if there is one, else the CPU. Its device number local_rank
// becomes the current one. Throws DeviceError, TopologyError when there are not so many devices,
// std::invalid_argument for a name other than "cpu" beside `cpu`.
at::Device choose_device(const DeviceChoice& choice);

// Throws DeviceError when the device's collective does not take tensors of this type; the message
// names the device, its series, what was asked `for_what` ("the parameter 'fc.weight'") and the
// types that it takes instead. Not collective. Complex types count as their parts.
void require_collective_dtype(at::Device device, MusterCollective collective, at::ScalarType dtype,
                              const std::string& for_what);

}  // namespace muster
