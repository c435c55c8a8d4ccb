// See snapshot.h.
#include "checkpoint/snapshot.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "checkpoint/safetensors_file.h"
#include "device/device_driver.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
// Above this, a multithreaded copy through LibTorch pays off.
constexpr size_t kDirectCopyBytes = size_t{256} << 10;

// Allocates memory in huge pages, if the kernel has them: otherwise the first save would spend most
// of its time in page faults. Throws std::bad_alloc.
at::Tensor allocate_block(int64_t bytes) {
  const size_t size = (static_cast<size_t>(bytes) + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Hints: without them the copy is only slower.
  ::madvise(memory, size, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  ::madvise(memory, size, MADV_POPULATE_WRITE);
#endif
  return at::from_blob(
      memory, {static_cast<int64_t>(size)}, [size](void* block) { ::munmap(block, size); },
      at::TensorOptions().dtype(at::kByte));
}

void copy_one(const at::Tensor& from, at::Tensor& to) {
  const bool direct = from.is_cpu() && from.is_contiguous() && !from.is_conj() && !from.is_neg() &&
                      from.nbytes() <= kDirectCopyBytes;
  if (direct) {
    if (from.nbytes() > 0) {
      std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
    }
  } else {
    to.copy_(from, /*non_blocking=*/true);
  }
}

// The location of each tensor's copy in the block: the same for tensors that share all their
// memory.
struct Layout {
  std::map<TensorIdentity, int64_t> places;
  int64_t bytes = 0;
};

Layout lay_out(const TensorMap& tensors) {
  Layout layout;
  for (const auto& [name, tensor] : tensors) {
    require_dense(name, tensor);
    if (!layout.places.try_emplace(identity_of(tensor), layout.bytes).second) continue;
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    layout.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return layout;
}

std::vector<c10::Device> devices_of(const TensorMap& tensors) {
  std::vector<c10::Device> devices;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_cpu() &&
        std::find(devices.begin(), devices.end(), tensor.device()) == devices.end()) {
      devices.push_back(tensor.device());
    }
  }
  return devices;
}

void wait_for_copies(const std::vector<c10::Device>& devices) {
  for (const c10::Device device : devices) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.synchronizeStream(guard.getStream(device));
  }
}

}  // namespace

void SnapshotBuffer::reserve(int64_t bytes, bool pinned) {
  pinned = pinned && has_pinned_memory();
  if (block_.defined() && block_.numel() >= bytes && (pinned_ || !pinned)) return;
  block_.reset();  // before allocating: never two blocks at once
  pinned_ = pinned;
  block_ = pinned ? at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true))
                  : allocate_block(bytes);
}

int64_t SnapshotBuffer::bytes_for(const TensorMap& tensors) { return lay_out(tensors).bytes; }

TensorMap SnapshotBuffer::take(const TensorMap& tensors) {
  const torch::NoGradGuard no_grad;
  const Layout layout = lay_out(tensors);
  const std::vector<c10::Device> devices = devices_of(tensors);
  reserve(std::max(layout.bytes, kAlignment), !devices.empty());
  std::map<int64_t, at::Tensor> copies;
  TensorMap result;
  for (const auto& [name, tensor] : tensors) {
    const int64_t place = layout.places.at(identity_of(tensor));
    if (tensor.numel() > 0) {
      const auto known = copies.find(place);
      if (known != copies.end()) {
        result[name] = known->second;
        continue;
      }
    }
    at::Tensor copy = block_.narrow(0, place, static_cast<int64_t>(tensor.nbytes()))
                          .view(tensor.scalar_type())
                          .view(tensor.sizes());
    copy_one(tensor, copy);
    if (tensor.numel() > 0) copies[place] = copy;
    result[name] = std::move(copy);
  }
  wait_for_copies(devices);
  return result;
}

}  // namespace muster
