// Memory of parameters that comes when an operator first touches it.
//
// The parameters of a unit are views of one storage whose memory can be taken away and given back;
// shapes, autograd and the saved tensors of a graph are not concerned. Each view carries a dispatch
// key of its own (TESTING_ONLY_GenericWrapper, which LibTorch leaves to extensions), above all
// others, and so do views made of it; the fallback on that key tells the owner which storages an
// operator is about to read, and then lets the operator run. The storage itself says whose it is:
// the context of its data pointer is the Guard.
//
// LibTorch takes one fallback for a key in a process, and several shared objects of a process may
// hold this file (plug-ins that link the SDK). So the first of them that divides a model brings the
// fallback, and it serves the storages of all.
#pragma once

#include <c10/core/StorageImpl.h>
#include <torch/types.h>

#include <memory>
#include <vector>

namespace muster {

class FirstTouchOwner {
 public:
  // Units that one operator touches, which must all have memory when this returns. Called on the
  // thread that runs the operator: the training thread, or autograd's in backward.
  virtual void touch(const std::vector<int>& units) = 0;

 protected:
  ~FirstTouchOwner() = default;
};

// Marks a storage as guarded for every shared object in the process: they know the class by its
// name. The number is that of the layout of Guard and FirstTouchOwner, and changes with them.
struct GuardedStorageImpl1 : c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;
};

class GuardedStorage {
 public:
  // Throws Error when the process's fallback is not one of this kind. `bytes` for the unit that the
  // owner knows by this number; without memory at first. The owner must outlive this object;
  // tensors may outlive both: what was given to them stays theirs.
  GuardedStorage(FirstTouchOwner& owner, int unit, int64_t bytes, at::Device device);
  ~GuardedStorage();
  GuardedStorage(const GuardedStorage&) = delete;
  GuardedStorage& operator=(const GuardedStorage&) = delete;

  // A view for a parameter, `offset` in elements. Reading it calls the owner.
  at::Tensor view(at::ScalarType dtype, int64_t offset, at::IntArrayRef sizes) const;

  // Gives the storage this tensor's memory (contiguous, as many bytes, at least until it is taken
  // away), or takes it away when undefined: reading it without an operator is then refused.
  void set_memory(const at::Tensor& memory);
  bool has_memory() const;
  // The same while the memory's values are on their way.
  void refuse_direct_reads(bool refused);

 private:
  struct Guard;
  static void free_guard(void* guard);
  static void require_fallback();
  static bool hears_touches();
  static Guard* guard_of(const at::Tensor& tensor);
  friend class FirstTouchFallback;

  c10::Storage storage_;
  Guard* guard_;  // owned by the storage
  at::Device device_;
};

// Makes `parameter` the view, in place: its handles everywhere, also in autograd, see it. Keeps
// requires_grad. Also for parameters of the meta device.
void become_view(at::Tensor parameter, const at::Tensor& view);

}  // namespace muster
