// Parameters whose memory is provided at their first use by an operator.
//
// The parameters of a unit are views of one storage whose memory can be removed and provided again;
// shapes, autograd and the saved tensors of a graph are not affected. Each view carries an
// additional dispatch key (TESTING_ONLY_GenericWrapper, which LibTorch leaves to extensions), above
// all others, and so do views of it. The fallback on that key tells the owner which units an
// operator is about to read, and then runs the operator. The storage identifies its owner: the
// context of its data pointer is the Guard.
//
// LibTorch accepts one fallback per key and process, and several shared objects of a process may
// contain this file (plug-ins that link the SDK). The first of them that shards a model registers
// the fallback, which then serves the storages of all.
#pragma once

#include <c10/core/StorageImpl.h>
#include <torch/types.h>

#include <memory>
#include <vector>

namespace muster {

class ShardOwner {
 public:
  // Units that one operator is about to read; all of them must have memory when this returns.
  // Called on the thread that runs the operator: the training thread, or autograd's in backward.
  virtual void unshard(const std::vector<int>& units) = 0;
  // Leaves all its units with the module, for its next owner to take over.
  virtual void leave() = 0;

 protected:
  ~ShardOwner() = default;
};

// Marks a storage as guarded for every shared object in the process: they recognize the class by
// name. The number is the version of the layout of Guard and ShardOwner, and changes with it.
struct GuardedStorageImpl2 : c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;
};

// What an owner leaves: this rank's part of a unit's values.
struct LeftShard {
  at::Tensor chunk;  // in the optimizer's dtype
  int ranks = 1;     // that have the chunks of one copy; in the first copy, ranks 0 to ranks - 1
  int rank = 0;      // of this chunk
  at::ScalarType dtype = at::kFloat;  // of the parameters, before they were sharded
};

class GuardedStorage {
 public:
  // Throws Error if the process's fallback is not one of this version. `bytes`: of the owner's unit
  // with this number; without memory at first. The owner must outlive this object; tensors may
  // outlive both and keep the memory that they were given.
  GuardedStorage(ShardOwner& owner, int unit, int64_t bytes, at::Device device);
  ~GuardedStorage();
  GuardedStorage(const GuardedStorage&) = delete;
  GuardedStorage& operator=(const GuardedStorage&) = delete;

  // A view for a parameter, `offset` in elements. Operators that read it call the owner.
  at::Tensor view(at::ScalarType dtype, int64_t offset, at::IntArrayRef sizes) const;

  // Gives the storage this tensor's memory (contiguous, of the same size, which must live until it
  // is removed), or removes it if undefined: direct reads are then refused.
  void set_memory(const at::Tensor& memory);
  bool has_memory() const;
  // Has no owner any more. Memory stays and may be read; without, reading is an error.
  void leave(LeftShard shard);
  // The same while the memory's values have not arrived yet.
  void refuse_direct_reads(bool refused);

  // The shard that was left with this parameter; null if its owner is there, or it has none. `owner`
  // becomes the owner, if there is one.
  static const LeftShard* left_with(const at::Tensor& parameter, ShardOwner** owner);

 private:
  struct Guard;
  static void free_guard(void* guard);
  static void require_fallback();
  static bool hears_first_use();
  static Guard* guard_of(const at::Tensor& tensor);
  friend class FirstUseFallback;

  c10::Storage storage_;
  Guard* guard_;  // owned by the storage
  at::Device device_;
};

// Makes `parameter` the view, in place: all its handles, autograd's included, see it. Keeps
// requires_grad. Also works for parameters on the meta device.
void become_view(at::Tensor parameter, const at::Tensor& view);

}  // namespace muster
