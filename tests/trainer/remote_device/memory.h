// Memory of the device, and pinned memory of the host. The addresses that tensors hold are never
// readable: code of the host that follows one dies with SIGSEGV, at any time and on any thread. The
// device's own threads see the same bytes at another place.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "streams.h"

namespace remote {

// Where the device's threads see an address of the device. Null stays null; throws c10::Error for
// an address that is not the device's.
void* window(const void* address);
// Throws c10::Error if the address belongs to no device.
c10::Device device_of(const void* address);

// Keeps freed blocks for the stream that they were allocated on, as the allocators of real devices
// do: they are reused in the stream's order, and by other streams only after those that
// recordStream named. New and freed memory is filled with NaN, in the stream's order.
c10::DeviceAllocator& device_allocator();

c10::Allocator& pinned_allocator();
bool is_pinned(const void* address);

}  // namespace remote
