// The dispatcher's side of first_use.h.
#include "sharding/first_use.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

// LibTorch has a setter for some keys only, and the member is protected.
struct KeySetDoor : c10::TensorImpl {
  static c10::DispatchKeySet c10::TensorImpl::*member() { return &KeySetDoor::key_set_; }
};

void add_key(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->*KeySetDoor::member() = impl->key_set().add(kKey);
}

// Code that reads the memory without the dispatcher (torch::save, data_ptr()) gets this error
// instead of a null pointer. A template, because older releases have no such refusal.
template <typename StorageImpl>
void refuse_reads(StorageImpl& storage, bool refused) {
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); }) {
    if (!refused) return storage.clear_data_ptr_access_error_msg_();
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(
        "this parameter is sharded over the ranks and not whole at the moment: save it with "
        "Accelerator::save_model or get_state_dict, or read it inside "
        "Accelerator::full_parameters(model)");
  }
}

}  // namespace

struct GuardedStorage::Guard {
  ShardOwner* owner = nullptr;  // null: destroyed
  int unit = 0;
  at::Tensor memory;  // lives as long as the storage points to it
  std::optional<LeftShard> left;
};

void GuardedStorage::free_guard(void* guard) { delete static_cast<Guard*>(guard); }

GuardedStorage::Guard* GuardedStorage::guard_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kKey) || !tensor.has_storage()) return nullptr;
  auto* storage = dynamic_cast<GuardedStorageImpl2*>(tensor.storage().unsafeGetStorageImpl());
  return storage == nullptr
             ? nullptr
             : static_cast<Guard*>(storage->_mutable_data_ptr_no_checks().get_context());
}

GuardedStorage::GuardedStorage(ShardOwner& owner, int unit, int64_t bytes, at::Device device)
    : guard_(new Guard{&owner, unit, {}, {}}), device_(device) {
  storage_ = c10::Storage(c10::make_intrusive<GuardedStorageImpl2>(
      c10::StorageImpl::use_byte_size_t(), bytes, at::DataPtr(nullptr, guard_, &free_guard, device),
      nullptr, /*resizable=*/false));
  require_fallback();
  refuse_reads(*storage_.unsafeGetStorageImpl(), true);
}

GuardedStorage::~GuardedStorage() { guard_->owner = nullptr; }

at::Tensor GuardedStorage::view(at::ScalarType dtype, int64_t offset, at::IntArrayRef sizes) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor tensor = at::empty({0}, at::dtype(dtype).device(device_));
  // set_ checks the memory, although it reads none of it.
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  refuse_reads(storage, false);
  tensor.set_(storage_, offset, sizes, c10::contiguous_strides(sizes));
  refuse_reads(storage, !has_memory());
  add_key(tensor);
  return tensor;
}

void GuardedStorage::set_memory(const at::Tensor& memory) {
  c10::StorageImpl* storage = storage_.unsafeGetStorageImpl();
  void* data = memory.defined() ? memory.data_ptr() : nullptr;
  at::DataPtr old = storage->set_data_ptr(at::DataPtr(data, guard_, &free_guard, device_));
  old.release_context();  // the guard stays valid
  guard_->memory = memory;
  refuse_reads(*storage, data == nullptr);
}

void GuardedStorage::refuse_direct_reads(bool refused) {
  refuse_reads(*storage_.unsafeGetStorageImpl(), refused);
}

bool GuardedStorage::has_memory() const { return guard_->memory.defined(); }

void GuardedStorage::leave(LeftShard shard) {
  guard_->owner = nullptr;
  guard_->left = std::move(shard);
}

const LeftShard* GuardedStorage::left_with(const at::Tensor& parameter, ShardOwner** owner) {
  const Guard* guard = guard_of(parameter);
  *owner = guard == nullptr ? nullptr : guard->owner;
  return guard == nullptr || !guard->left ? nullptr : &*guard->left;
}

void become_view(at::Tensor parameter, const at::Tensor& view) {
  // set_data calls an operator to check that the two are compatible.
  const c10::impl::ExcludeDispatchKeyGuard exclude(kKey);
  if (at::_has_compatible_shallow_copy_type(parameter, view)) {
    parameter.set_data(view);
  } else {
    // set_data refuses meta, and devices from plug-ins; this is what it does otherwise.
    parameter.unsafeGetTensorImpl()->shallow_copy_from(view.getIntrusivePtr());
  }
}

// Outside of the unnamed namespace to be a friend.
class FirstUseFallback {
 public:
  static void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    Used used;
    for (const c10::IValue& argument : arguments) used.add(argument);
    if (used.owner != nullptr) used.owner->unshard(used.units);
    // The operators that this one consists of read only what it was given.
    const c10::impl::ExcludeDispatchKeyGuard exclude(kKey);
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
  }

 private:
  struct Used {
    ShardOwner* owner = nullptr;
    std::vector<int> units;

    void add(const c10::IValue& argument) {
      if (argument.isTensor()) {
        add(argument.toTensor());
      } else if (argument.isTensorList()) {
        for (const at::Tensor& tensor : argument.toTensorVector()) add(tensor);
      } else if (argument.isList()) {
        for (const c10::IValue& value : argument.toListRef()) {
          if (value.isTensor()) add(value.toTensor());
        }
      }
    }
    void add(const at::Tensor& tensor) {
      const GuardedStorage::Guard* guard = GuardedStorage::guard_of(tensor);
      if (guard == nullptr) return;
      if (guard->owner == nullptr) {
        if (guard->memory.defined()) return;
        throw Error(
            "a parameter is still sharded over the ranks, and nothing gathers it since "
            "free_memory() or the end of its Accelerator: prepare the module again, which takes "
            "its shards over, or take the values before by get_state_dict(model)");
      }
      // One operator may use units of two models; each owner is told of its own.
      if (owner != nullptr && owner != guard->owner) {
        owner->unshard(units);
        units.clear();
      }
      owner = guard->owner;
      if (std::find(units.begin(), units.end(), guard->unit) == units.end()) {
        units.push_back(guard->unit);
      }
    }
  };
};

namespace {

void first_use_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack) {
  FirstUseFallback::run(op, keys, stack);
}

// The dispatcher will point into the shared object that contains this function, so it must stay
// loaded.
void stay_loaded() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&first_use_fallback), &here) != 0) {
    ::dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

void register_fallback() {
  stay_loaded();
  // Never destroyed: destruction would remove the fallback for all.
  auto* all = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&first_use_fallback>());
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  // These read only a tensor's shape: optimizer state is created with them.
  for (const char* name : {"empty_like", "full_like", "ones_like", "zeros_like", "rand_like",
                           "randn_like", "new_empty", "new_full", "new_ones", "new_zeros"}) {
    aten->impl(name, torch::CppFunction::makeFallthrough());
  }
}

}  // namespace

// Whether the process's fallback finds the owner of one of our storages.
bool GuardedStorage::hears_first_use() {
  struct Listener : ShardOwner {
    void unshard(const std::vector<int>&) override { heard = true; }
    void leave() override {}
    bool heard = false;
  } listener;
  const at::Tensor memory = at::zeros({1}, at::kFloat);
  auto* guard = new Guard{&listener, 0, memory, {}};
  const c10::Storage storage(c10::make_intrusive<GuardedStorageImpl2>(
      c10::StorageImpl::use_byte_size_t(), sizeof(float),
      at::DataPtr(memory.data_ptr(), guard, &free_guard, at::kCPU), nullptr, false));
  at::Tensor tensor = at::empty({0}, at::kFloat);
  tensor.set_(storage, 0, {1}, {1});
  add_key(tensor);
  const torch::NoGradGuard no_grad;
  tensor.add(1);
  return listener.heard;
}

void GuardedStorage::require_fallback() {
  static std::mutex mutex;
  static bool is_there = false;  // guarded by mutex
  const std::lock_guard lock(mutex);
  if (is_there) return;
  if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) register_fallback();
  is_there = hears_first_use();
  if (!is_there) {
    throw Error(
        "another library of this process has taken the dispatch key TESTING_ONLY_GenericWrapper, "
        "perhaps with another release of this SDK: sharding a model needs it; build all libraries "
        "of the process against one release");
  }
}

}  // namespace muster
