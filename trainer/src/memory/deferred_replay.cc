// Replays the tape of deferred initialization; see deferred_init.h.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <type_traits>

#include "memory/deferred_tape.h"

namespace muster::deferred_detail {
namespace {

// The operator after which a memory's values are no longer needed.
struct Release {
  size_t memory;
  bool is_last;  // false: the next operator on it overwrites it
};

template <typename F>
void for_each_memory(const Operation& operation, F&& f) {
  const auto visit = [&](const std::vector<RecordedTensor>& tensors) {
    for (const RecordedTensor& tensor : tensors) {
      if (tensor.view) f(tensor.view->memory);
    }
  };
  for (const RecordedArgument& argument : operation.arguments) visit(argument.tensors);
  visit(operation.results);
}

std::vector<std::vector<Release>> plan_releases(const Tape& tape) {
  enum class Next { nothing, overwrites, uses };
  std::vector<Next> next(tape.memories.size(), Next::nothing);
  std::vector<std::vector<Release>> releases(tape.operations.size());
  for (size_t i = tape.operations.size(); i-- > 0;) {
    const Operation& operation = tape.operations[i];
    std::vector<size_t> touched;
    for_each_memory(operation, [&](size_t memory) { touched.push_back(memory); });
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const size_t memory : touched) {
      if (next[memory] != Next::uses) {
        releases[i].push_back({memory, next[memory] == Next::nothing});
      }
      next[memory] = operation.overwritten == memory ? Next::overwrites : Next::uses;
    }
  }
  return releases;
}

// While it lives, the default dtype and the generators are those of the constructor.
class AsInConstructor {
 public:
  explicit AsInConstructor(const Tape& tape) : dtype_before_(c10::get_default_dtype()) {
    c10::set_default_dtype(tape.default_dtype);
    for (const auto& [generator, state] : tape.generators) {
      at::Generator same = generator;
      const std::lock_guard<std::mutex> lock(same.mutex());
      same.set_state(state);
    }
  }
  ~AsInConstructor() { c10::set_default_dtype(dtype_before_); }
  AsInConstructor(const AsInConstructor&) = delete;
  AsInConstructor& operator=(const AsInConstructor&) = delete;

 private:
  const torch::NoGradGuard no_grad_;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  caffe2::TypeMeta dtype_before_;
};

class Replay {
 public:
  Replay(const Tape& tape, const PlaceValue& place)
      : tape_(tape), place_(place), values_(tape.memories.size()), bytes_(tape.memories.size()) {
    for (size_t i = 0; i < tape.memories.size(); ++i) {
      bytes_[i] = tape.memories[i].recorded.nbytes();
      if (tape.memories[i].is_real) values_[i] = tape.memories[i].recorded;
    }
    placed_.resize(tape.tensors.size());
    tensors_in_.resize(tape.memories.size());
    for (size_t i = 0; i < tape.tensors.size(); ++i) {
      const auto view = view_of(tape, tape.tensors[i].tensor);
      if (view) tensors_in_[view->memory].push_back(i);
    }
  }

  void run() {
    const std::vector<std::vector<Release>> releases = plan_releases(tape_);
    for (size_t i = 0; i < tape_.operations.size(); ++i) {
      run(tape_.operations[i]);
      for (const Release& release : releases[i]) let_go(release);
    }
    // Tensors that were never deferred.
    for (size_t i = 0; i < tape_.tensors.size(); ++i) {
      if (!placed_[i]) place_(tape_.tensors[i].tensor, tape_.tensors[i].tensor);
    }
  }

 private:
  void run(const Operation& operation) {
    torch::jit::Stack stack;
    for (const RecordedArgument& argument : operation.arguments)
      stack.push_back(value_of(argument));
    operation.op.callBoxed(stack);
    size_t next = 0;
    for (const c10::IValue& value : stack) {
      for_each_tensor(value, [&](const at::Tensor& result) {
        const RecordedTensor& recorded = operation.results.at(next++);
        if (recorded.view && result.defined()) keep(*recorded.view, result);
      });
    }
  }

  c10::IValue value_of(const RecordedArgument& argument) {
    using Kind = RecordedArgument::Kind;
    switch (argument.kind) {
      case Kind::tensor:
        return tensor_of(argument.tensors[0]);
      case Kind::tensors: {
        c10::List<at::Tensor> list;
        for (const RecordedTensor& tensor : argument.tensors) list.push_back(tensor_of(tensor));
        return list;
      }
      case Kind::optional_tensors: {
        c10::List<std::optional<at::Tensor>> list;
        for (const RecordedTensor& recorded : argument.tensors) {
          at::Tensor tensor = tensor_of(recorded);
          list.push_back(tensor.defined() ? std::optional(std::move(tensor)) : std::nullopt);
        }
        return list;
      }
      case Kind::plain:
        break;
    }
    const bool is_meta = argument.plain.isDevice() && argument.plain.toDevice().is_meta();
    return is_meta ? c10::IValue(c10::Device(at::kCPU)) : argument.plain;
  }

  at::Tensor tensor_of(const RecordedTensor& recorded) {
    if (recorded.view) return tensor_of(*recorded.view);
    if (recorded.constant.defined() &&
        static_cast<int64_t>(recorded.constant._version()) != recorded.version) {
      throw Error("materialize: a real tensor of shape " + c10::str(recorded.constant.sizes()) +
                  " that the constructor used was changed later, so the values "
                  "would differ. Use a copy (clone()) in the constructor");
    }
    return recorded.constant;
  }

  at::Tensor tensor_of(const TensorView& view) {
    c10::Storage& storage = values_[view.memory];
    if (!storage) {
      // About to be overwritten.
      storage = at::empty({static_cast<int64_t>(bytes_[view.memory])}, at::kByte).storage();
    }
    at::Tensor tensor =
        at::empty({0}, at::TensorOptions().dtype(view.dtype).device(storage.device()));
    return tensor.set_(storage, view.offset, view.sizes, view.strides);
  }

  // Stores the result's values in the view's memory.
  void keep(const TensorView& view, const at::Tensor& result) {
    c10::Storage& storage = values_[view.memory];
    const bool same_layout = result.has_storage() && result.scalar_type() == view.dtype &&
                             result.sizes() == view.sizes && result.strides() == view.strides &&
                             result.storage_offset() == view.offset;
    if (!storage && same_layout) {
      storage = result.storage();
    } else if (!same_layout ||
               storage.unsafeGetStorageImpl() != result.storage().unsafeGetStorageImpl()) {
      // Some operators use a different memory layout on meta, which later operators depend on.
      tensor_of(view).copy_(result);
    }
  }

  void let_go(const Release& release) {
    c10::Storage value = values_[release.memory];
    if (!tape_.memories[release.memory].is_real) {
      bytes_[release.memory] = value ? value.nbytes() : 0;
      values_[release.memory] = c10::Storage();
    }
    if (!release.is_last) return;
    std::vector<std::pair<size_t, at::Tensor>> ready;
    for (const size_t index : tensors_in_[release.memory]) {
      const at::Tensor& own = tape_.tensors[index].tensor;
      placed_[index] = true;
      if (tape_.memories[release.memory].is_real) {
        ready.emplace_back(index, own);
        continue;
      }
      at::Tensor tensor = at::empty({0}, own.options().device(value.device()));
      tensor.set_(value, own.storage_offset(), own.sizes(), own.strides());
      ready.emplace_back(index, std::move(tensor));
    }
    value = c10::Storage();
    for (auto& [index, tensor] : ready) place_(tape_.tensors[index].tensor, std::move(tensor));
  }

  const Tape& tape_;
  const PlaceValue& place_;
  std::vector<c10::Storage> values_;             // by memory; empty while its values are not needed
  std::vector<size_t> bytes_;                    // their sizes
  std::vector<bool> placed_;                     // by tensor
  std::vector<std::vector<size_t>> tensors_in_;  // by memory
};

}  // namespace

void replay(Tape& tape, const PlaceValue& place) {
  require_not_recording("materialize");
  if (tape.replayed) {
    throw Error(
        "materialize: this module was already materialized. Build another one with "
        "deferred_init");
  }
  tape.replayed = true;
  const AsInConstructor scope(tape);
  Replay(tape, place).run();
  tape.operations.clear();
  tape.memory_of.clear();
  tape.memories.clear();
}

}  // namespace muster::deferred_detail

namespace muster {
namespace {

// A graph node that the constructor built refers to the old device. Pointers to nodes have a
// different type in older releases.
template <typename Pointer>
void forget_accumulator(const at::Tensor& tensor, void (*set)(const at::Tensor&, Pointer)) {
  if (torch::autograd::impl::get_autograd_meta(tensor) == nullptr) return;
  if constexpr (std::is_default_constructible_v<Pointer>) {
    set(tensor, Pointer());
  } else {
    set(tensor, Pointer(c10::intrusive_ptr<typename Pointer::element_type>()));
  }
}

}  // namespace

void assign_value(const at::Tensor& tensor, const at::Tensor& value) {
  if (tensor.sizes() != value.sizes() || tensor.scalar_type() != value.scalar_type()) {
    throw std::invalid_argument("assign_value: the tensor is " + c10::str(tensor.sizes(), " of ") +
                                c10::toString(tensor.scalar_type()) + ", the value " +
                                c10::str(value.sizes(), " of ") +
                                c10::toString(value.scalar_type()));
  }
  forget_accumulator(tensor, &torch::autograd::impl::set_grad_accumulator);
  tensor.unsafeGetTensorImpl()->shallow_copy_from(value.getIntrusivePtr());
}

}  // namespace muster
