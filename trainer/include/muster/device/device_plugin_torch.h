// For writing a device plug-in (device_plugin.h) in C++: most of the table, for any device that
// LibTorch knows as an accelerator, and a guard that turns exceptions into errors. Header-only.
#pragma once

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/device/device_plugin.h"

#define MUSTER_DEVICE_TEXT_OF(number) #number
#define MUSTER_DEVICE_TEXT(number) MUSTER_DEVICE_TEXT_OF(number)

// Put it at the end of a plug-in's source file, outside all namespaces: exports `table`, a
// MusterDeviceTable with static storage duration. The SDK reads the label from the file before it
// loads the library, because a library for another LibTorch may fail before it can return its
// table.
#define MUSTER_DEVICE_PLUGIN(table)                                                              \
  extern "C" {                                                                                   \
  __attribute__((visibility("default"))) extern const char muster_device_plugin_label[];         \
  __attribute__((used)) const char muster_device_plugin_label[] =                                \
      "muster-device-plugin abi=" MUSTER_DEVICE_TEXT(MUSTER_DEVICE_ABI) " torch=" TORCH_VERSION; \
  __attribute__((visibility("default"))) const MusterDeviceTable* muster_device_plugin(void) {   \
    return &(table);                                                                             \
  }                                                                                              \
  }

namespace muster {

// Runs `body` and returns 0; if it throws, writes the message to `error` and returns 1.
template <typename Body>
int device_status(MusterDeviceError* error, const Body& body) noexcept {
  const auto fail = [error](const char* text) {
    // LibTorch appends a native stack; only the message before it is useful to people.
    const char* const stack = std::strstr(text, "\nException raised from ");
    const size_t whole = stack == nullptr ? std::strlen(text) : static_cast<size_t>(stack - text);
    const size_t bytes = std::min(whole, sizeof(error->text) - 1);
    std::memcpy(error->text, text, bytes);
    error->text[bytes] = '\0';
    return 1;
  };
  try {
    body();
    return 0;
  } catch (const std::exception& failure) {
    return fail(failure.what());
  } catch (...) {
    return fail("an exception that is not a std::exception");
  }
}

// The MusterDtype of an element type, for a complex type that of its components; nullopt for types
// that no collective supports (quantized and packed ones).
inline std::optional<MusterDtype> device_dtype(at::ScalarType dtype) {
  switch (c10::toRealValueType(dtype)) {
    case at::kBool:
      return MUSTER_BOOL;
    case at::kByte:
      return MUSTER_UINT8;
    case at::kChar:
      return MUSTER_INT8;
    case at::kShort:
      return MUSTER_INT16;
    case at::kUInt16:
      return MUSTER_UINT16;
    case at::kInt:
      return MUSTER_INT32;
    case at::kUInt32:
      return MUSTER_UINT32;
    case at::kLong:
      return MUSTER_INT64;
    case at::kUInt64:
      return MUSTER_UINT64;
    case at::kHalf:
      return MUSTER_FLOAT16;
    case at::kBFloat16:
      return MUSTER_BFLOAT16;
    case at::kFloat:
      return MUSTER_FLOAT32;
    case at::kDouble:
      return MUSTER_FLOAT64;
    case at::kFloat8_e4m3fn:
      return MUSTER_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return MUSTER_FLOAT8_E5M2;
    default:
      return std::nullopt;
  }
}

// Typed access to the arguments of make_backend.
inline const c10::intrusive_ptr<c10d::Store>& store_of(const MusterBackendRequest& request) {
  return *static_cast<const c10::intrusive_ptr<c10d::Store>*>(request.store);
}
inline void give_backend(void* backend, c10::intrusive_ptr<c10d::Backend> made) {
  *static_cast<c10::intrusive_ptr<c10d::Backend>*>(backend) = std::move(made);
}

// The table's functions for the default generators of devices of this type. The CPU has one,
// whatever the index.
template <c10::DeviceType Type>
struct TorchGenerator {
  static at::Generator of(int32_t index) {
    return at::globalContext().defaultGenerator(
        Type == c10::kCPU ? at::Device(c10::kCPU)
                          : at::Device(Type, static_cast<c10::DeviceIndex>(index)));
  }
  static int seed(int32_t index, uint64_t seed, MusterDeviceError* error) {
    return device_status(error, [&] {
      at::Generator generator = of(index);
      const std::lock_guard lock(generator.mutex());
      generator.set_current_seed(seed);
    });
  }
  static int state(int32_t index, uint8_t* bytes, uint64_t capacity, uint64_t* size,
                   MusterDeviceError* error) {
    return device_status(error, [&] {
      at::Generator generator = of(index);
      const std::lock_guard lock(generator.mutex());
      const at::Tensor state = generator.get_state();
      *size = static_cast<uint64_t>(state.nbytes());
      if (capacity >= *size) std::memcpy(bytes, state.const_data_ptr(), *size);
    });
  }
  static int set_state(int32_t index, const uint8_t* bytes, uint64_t size,
                       MusterDeviceError* error) {
    return device_status(error, [&] {
      at::Tensor state = at::empty({static_cast<int64_t>(size)}, at::kByte);
      std::memcpy(state.mutable_data_ptr(), bytes, size);
      at::Generator generator = of(index);
      const std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    });
  }
};

// The table's functions that LibTorch can implement for every accelerator that registered its
// device guard, generators and allocator.
template <c10::DeviceType Type>
struct TorchAccelerator {
  static int count(int32_t* count, MusterDeviceError* error) {
    return device_status(error, [&] {
      *count = c10::impl::hasDeviceGuardImpl(Type) ? c10::impl::VirtualGuardImpl(Type).deviceCount()
                                                   : static_cast<c10::DeviceIndex>(0);
    });
  }
  static int set_current(int32_t index, MusterDeviceError* error) {
    return device_status(error, [&] {
      at::globalContext().lazyInitDevice(Type);
      c10::impl::VirtualGuardImpl(Type).setDevice(
          at::Device(Type, static_cast<c10::DeviceIndex>(index)));
    });
  }
  static int synchronize(int32_t index, MusterDeviceError* error) {
    return device_status(error, [&] {
      c10::impl::VirtualGuardImpl(Type).synchronizeDevice(static_cast<c10::DeviceIndex>(index));
    });
  }
  // Null before the first tensor, and if LibTorch was built without such devices.
  static c10::DeviceAllocator* allocator() {
    if (!c10::impl::hasDeviceGuardImpl(Type)) return nullptr;
    auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(Type));
    return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
  }
  static int memory(int32_t index, MusterDeviceMemory* memory, MusterDeviceError* error) {
    return device_status(error, [&] {
      *memory = {0, 0, 0, 0, -1, -1};
      c10::DeviceAllocator* const known = allocator();
      if (known == nullptr) return;
      const auto device = static_cast<c10::DeviceIndex>(index);
      const auto stats = known->getDeviceStats(device);
      memory->allocated = stats.allocated_bytes[0].current;  // [0]: the sum over all pools
      memory->allocated_peak = stats.allocated_bytes[0].peak;
      memory->reserved = stats.reserved_bytes[0].current;
      memory->reserved_peak = stats.reserved_bytes[0].peak;
      add_device_memory(*known, device, memory);
    });
  }
  static int reset_peak_memory(int32_t index, MusterDeviceError* error) {
    return device_status(error, [&] {
      if (auto* known = allocator()) known->resetPeakStats(static_cast<c10::DeviceIndex>(index));
    });
  }
  static int empty_cache(MusterDeviceError* error) {
    return device_status(error, [] {
      if (auto* known = allocator()) known->emptyCache();
    });
  }

  // A table with all of these functions; the caller adds series, collective_dtypes and
  // make_backend.
  static MusterDeviceTable table(const char* name) {
    MusterDeviceTable table{};
    table.abi_version = MUSTER_DEVICE_ABI;
    table.torch_version = TORCH_VERSION;
    table.name = name;
    table.device_type = static_cast<int32_t>(Type);
    table.count = &count;
    table.set_current = &set_current;
    table.synchronize = &synchronize;
    table.seed = &TorchGenerator<Type>::seed;
    table.random_state = &TorchGenerator<Type>::state;
    table.set_random_state = &TorchGenerator<Type>::set_state;
    table.memory = &memory;
    table.reset_peak_memory = &reset_peak_memory;
    table.empty_cache = &empty_cache;
    return table;
  }

 private:
  // Not every LibTorch since 2.11 has getMemoryInfo.
  template <typename Allocator>
  static void add_device_memory(Allocator& allocator, c10::DeviceIndex device,
                                MusterDeviceMemory* memory) {
    if constexpr (requires { allocator.getMemoryInfo(device); }) {
      const auto [free, total] = allocator.getMemoryInfo(device);
      memory->free = static_cast<int64_t>(free);
      memory->total = static_cast<int64_t>(total);
    }
  }
};

}  // namespace muster
