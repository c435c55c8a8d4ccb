// Copies tensors into a reused buffer, so that a save can be written while training changes the
// originals. One thread at a time.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

class SnapshotBuffer {
 public:
  // Contiguous CPU copies of all tensors as they are now (on their device's current stream);
  // tensors that share all their memory share it in the copy too. The copies are in one block that
  // the next call overwrites: pinned if a tensor is on a device, and reallocated only if it is too
  // small. When this returns, the originals may change. Throws FormatError for a tensor that
  // safetensors cannot represent.
  TensorMap take(const TensorMap& tensors);

  // The bytes that take needs for these tensors. Throws as take does.
  static int64_t bytes_for(const TensorMap& tensors);

  // Allocates the block for copies of this many bytes in total, so that the first take does not
  // have to: fresh memory costs more time than the copy. Throws std::bad_alloc.
  void reserve(int64_t bytes, bool pinned);

  size_t capacity() const { return static_cast<size_t>(block_.defined() ? block_.numel() : 0); }

 private:
  at::Tensor block_;  // bytes
  bool pinned_ = false;
};

}  // namespace muster
