// Reuses the memory of unsharded units and of gradients in flight: fresh pages cost the system more
// than the copy into them. One thread at a time.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace muster {

class BufferPool {
 public:
  explicit BufferPool(at::Device device) : device_(device) {}

  // [numel] of the dtype, uninitialized.
  at::Tensor take(int64_t numel, at::ScalarType dtype) {
    const int64_t bytes = numel * static_cast<int64_t>(c10::elementSize(dtype));
    auto best = free_.end();
    for (auto one = free_.begin(); one != free_.end(); ++one) {
      // A much larger one is kept for requests of its own size.
      if (one->numel() < bytes || one->numel() > 2 * bytes) continue;
      if (best == free_.end() || one->numel() < best->numel()) best = one;
    }
    at::Tensor buffer;
    if (best != free_.end()) {
      buffer = *best;
      free_.erase(best);
    } else {
      buffer = at::empty({bytes}, at::dtype(at::kByte).device(device_));
    }
    return buffer.narrow(0, 0, bytes).view(dtype);
  }

  // Takes back what take() returned; the caller no longer uses it.
  void give_back(const at::Tensor& taken) {
    at::Tensor buffer = at::empty({0}, at::dtype(at::kByte).device(device_));
    buffer.set_(taken.storage());
    free_.push_back(std::move(buffer));
    if (free_.size() > kFreeMax) free_.erase(free_.begin());
  }

 private:
  // Two units in use, the gradients of a third, and their scratch.
  static constexpr size_t kFreeMax = 4;

  const at::Device device_;
  std::vector<at::Tensor> free_;  // bytes; the most recently returned one is last
};

}  // namespace muster
