// Batch sizes that fit into memory; see executable_batch_size.h.
#include "muster/collectives/executable_batch_size.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "device/device_driver.h"
#include "muster/base/errors.h"

namespace muster {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return true;
  }
  // LibTorch puts the throwing source line into what(); these texts do not occur there.
  constexpr std::array<const char*, 5> kTexts = {
      " out of memory.", "MPS backend out of memory", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED",
      "DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory"};
  return std::any_of(kTexts.begin(), kTexts.end(),
                     [&](const char* text) { return std::strstr(error.what(), text) != nullptr; });
}

void clear_device_cache() {
  for (const DeviceDriver* driver : device_drivers()) driver->empty_cache();
}

namespace {

enum class Outcome { fits, too_large, failed };

// fn's outcome on this rank; keeps an error other than out-of-memory.
Outcome attempt(const std::function<void(int64_t)>& fn, int64_t batch_size,
                std::exception_ptr* other_error) {
  try {
    fn(batch_size);
    return Outcome::fits;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) return Outcome::too_large;
    *other_error = std::current_exception();
  } catch (...) {
    *other_error = std::current_exception();
  }
  return Outcome::failed;
}

}  // namespace

int64_t find_executable_batch_size(const std::function<void(int64_t batch_size)>& fn,
                                   const ExecutableBatchSizeOptions& options) {
  if (options.starting_batch_size < 1) {
    throw std::invalid_argument("find_executable_batch_size: starting_batch_size is " +
                                std::to_string(options.starting_batch_size) +
                                ", but must be at least 1");
  }
  const auto any_rank = [&](bool own) { return options.any_rank ? options.any_rank(own) : own; };
  clear_device_cache();
  int64_t batch_size = options.starting_batch_size;
  while (batch_size > 0) {
    std::exception_ptr error;
    const Outcome own = attempt(fn, batch_size, &error);
    if (!any_rank(own != Outcome::fits)) return batch_size;
    // Two reductions, because the ranks must know which of the two happened.
    if (any_rank(own == Outcome::failed)) {
      if (error) std::rethrow_exception(error);
      throw CommunicationError(
          "find_executable_batch_size: batch size " + std::to_string(batch_size) +
          " failed on another rank, but not because of memory: see that rank's error");
    }
    clear_device_cache();
    const int64_t next = options.reduce_batch_size
                             ? options.reduce_batch_size(batch_size)
                             : static_cast<int64_t>(static_cast<double>(batch_size) * 0.9);
    if (next >= batch_size) {
      throw std::invalid_argument("find_executable_batch_size: reduce_batch_size returned " +
                                  std::to_string(next) + " for " + std::to_string(batch_size) +
                                  ": it must return a smaller size");
    }
    batch_size = next;
  }
  throw Error("find_executable_batch_size: no batch size fits into memory, from " +
              std::to_string(options.starting_batch_size) + " down to 1");
}

}  // namespace muster
