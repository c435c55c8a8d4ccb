// Copies of tensors in memory that is used again from one copy to the next, so that a save can be
// written while training changes the originals. One thread at a time.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

class SnapshotBuffer {
 public:
  // Copies of all tensors as they are at this moment (on their device's current stream),
  // contiguous, on the CPU; tensors that share all their memory share it in the copy too. They lie
  // in one block that the next call overwrites: pinned when a tensor is on a device, and made anew
  // only when the copies need more than ever before. When this returns the originals may change.
  // Throws FormatError for a tensor that a safetensors file cannot hold.
  TensorMap take(const TensorMap& tensors);

  // What take needs for these tensors. Throws as take.
  static int64_t bytes_for(const TensorMap& tensors);

  // Makes the block ready for copies of so many bytes in all, so that the first take need not:
  // fresh memory costs more time than the copy. Throws std::bad_alloc.
  void reserve(int64_t bytes, bool pinned);

  size_t capacity() const { return static_cast<size_t>(block_.defined() ? block_.numel() : 0); }

 private:
  at::Tensor block_;  // bytes
  bool pinned_ = false;
};

}  // namespace muster
