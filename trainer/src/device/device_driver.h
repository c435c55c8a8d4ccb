// The kinds of devices that this process computes on, each behind a table as in device_plugin.h:
// the built-in CPU and CUDA, and plug-ins. Training thread.
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

// A C++ wrapper of a table: errors become DeviceError with the device's name.
class DeviceDriver {
 public:
  // `origin`: the plug-in's file; empty for built-in devices. Calls the table's init.
  DeviceDriver(const MusterDeviceTable& table, std::string origin);

  std::string name() const { return table_.name; }
  const std::string& origin() const { return origin_; }
  at::DeviceType type() const { return static_cast<at::DeviceType>(table_.device_type); }

  int count() const;
  // Sets the device that this rank computes on, which an at::Device without an index refers to.
  void set_current(int index);
  // Waits for all streams of the device.
  void synchronize(at::Device device) const;

  std::string series(at::Device device) const;
  uint32_t collective_dtypes(at::Device device, MusterCollective collective) const;
  // False: collectives use Gloo.
  bool has_backend() const { return table_.make_backend != nullptr; }
  // Collective over the request's ranks.
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

// The built-in tables: cpu_table.cc and cuda_table.cc.
const MusterDeviceTable& cpu_device_table();
const MusterDeviceTable& cuda_device_table();

// The device of that name: "cpu", "cuda", or a plug-in's, which is loaded and initialized on first
// use and stays loaded until the process exits. It becomes the driver of its tensor type
// (device_driver below). Throws DeviceError (see plugin_library.h).
DeviceDriver& open_device(const std::string& name);

// The driver of tensors of this type: the device that open_device opened last for it, else the
// built-in one. Throws DeviceError if there is none.
const DeviceDriver& device_driver(at::DeviceType type);
inline const DeviceDriver& device_driver(at::Device device) { return device_driver(device.type()); }

// One driver for each tensor type that has one.
std::vector<const DeviceDriver*> device_drivers();

// Whether LibTorch can allocate page-locked memory here: the library of a plug-in's device may not
// provide any. Copies then take pageable memory. Any thread, after a device was opened.
bool has_pinned_memory();

struct DeviceChoice {
  std::string name;  // AcceleratorOptions::device
  bool cpu = false;  // AcceleratorOptions::cpu
  int local_rank = 0;
};
// Opens the requested device: by `name`, `cpu`, MUSTER_DEVICE or ACCELERATE_USE_CPU, in this order;
// if none is set, CUDA if there is a GPU, else the CPU. Its device number local_rank becomes the
// current one. Throws DeviceError, TopologyError if there are too few devices,
// std::invalid_argument if `cpu` is set with a name other than "cpu".
at::Device choose_device(const DeviceChoice& choice);

// Whether the device's collective supports tensors of this dtype; complex dtypes count as their
// component dtype.
bool collective_takes(at::Device device, MusterCollective collective, at::ScalarType dtype);

// Throws DeviceError if the device's collective does not support tensors of this dtype; the message
// names the device, its series, what needs it (`for_what`, such as "the parameter 'fc.weight'") and
// supported alternatives. Not collective.
void require_collective_dtype(at::Device device, MusterCollective collective, at::ScalarType dtype,
                              const std::string& for_what);

}  // namespace muster
