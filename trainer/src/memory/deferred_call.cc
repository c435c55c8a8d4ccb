// Handles one operator call while a constructor runs inside deferred_init: decides whether to defer
// it, and records it on the tape; see deferred_init.h.
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "memory/deferred_tape.h"

namespace muster::deferred_detail {
namespace {

// Real tensors that operators read are copied up to this size.
constexpr int64_t kCopiedBytes = 1 << 20;

constexpr const char* kRemedy =
    "Compute with plain numbers in the constructor, create the tensor on an explicit device "
    "(torch::ones({n}, torch::kCPU)), or build the module without deferred_init";

const c10::StorageImpl* storage_key(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

std::string name_of(const c10::OperatorHandle& op) { return op.operator_name().name; }

bool is_deferred(const Tape& tape, const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_meta() || (tensor.has_storage() &&
                                                   tape.memory_of.contains(storage_key(tensor))));
}

size_t add_memory(Tape& tape, const at::Tensor& tensor) {
  const auto [place, is_new] =
      tape.memory_of.try_emplace(storage_key(tensor), tape.memories.size());
  if (is_new) tape.memories.push_back({tensor.storage(), !tensor.is_meta()});
  return place->second;
}

// Records one operator call.
class Call {
 public:
  Call(Tape& tape, const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : tape_(tape), op_(op), stack_(stack), first_(stack.size() - op.schema().arguments().size()) {
    for (size_t i = first_; i < stack_.size(); ++i) look_at(i - first_, stack_[i]);
  }

  // Whether the operator creates or uses tensors without values, or draws from the CPU's generator.
  bool is_to_be_deferred() const {
    if (is_number()) return false;
    if (touches_deferred_ || (device_ && device_->is_meta())) return true;
    if (!has_tensors_ && takes_device_ && !device_) return true;
    return is_random() && on_cpu_ && (!device_ || device_->is_cpu());
  }

  void run_at_once() {
    for (size_t i = first_; i < stack_.size(); ++i) {
      if (stack_[i].isDevice() && stack_[i].toDevice().is_meta()) stack_[i] = c10::Device(at::kCPU);
    }
    op_.callBoxed(stack_);
  }

  void run_deferred() {
    refuse_what_has_no_values();
    Operation operation{op_, {}, {}, {}};
    const std::vector<c10::IValue> given(stack_.begin() + static_cast<int64_t>(first_),
                                         stack_.end());
    take_written_tensors();
    for (size_t i = first_; i < stack_.size(); ++i) {
      operation.arguments.push_back(take(i - first_, stack_[i]));
    }
    operation.overwritten = overwritten(operation);
    call(given);
    give_back(operation);
    if (changes_something(operation)) tape_.operations.push_back(std::move(operation));
  }

 private:
  // torch::tensor(3) stays real, because constructors read it.
  bool is_number() const { return name_of(op_) == "aten::scalar_tensor"; }

  bool is_random() const { return op_.hasTag(at::Tag::nondeterministic_seeded); }

  bool is_written(size_t argument) const {
    const c10::AliasInfo* alias = op_.schema().arguments()[argument].alias_info();
    return alias != nullptr && alias->isWrite();
  }

  void look_at(size_t argument, const c10::IValue& value) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      has_tensors_ = true;
      touches_deferred_ |= is_deferred(tape_, tensor);
      on_cpu_ &= tensor.is_cpu() || tensor.is_meta();
    });
    if (op_.schema().arguments()[argument].name() == "device") {
      takes_device_ = true;
      if (value.isDevice()) device_ = value.toDevice();
    }
  }

  void refuse_what_has_no_values() const {
    if (device_ && !device_->is_meta() && !device_->is_cpu()) {
      throw Error("deferred_init: " + name_of(op_) + " moves a tensor without values to " +
                  device_->str() +
                  ". Deferred modules are built on the CPU: omit the device, and choose it in "
                  "materialize or prepare");
    }
    // Not all such operators are tagged.
    static const std::unordered_set<std::string> kReaders = {"aten::item", "aten::is_nonzero"};
    if (op_.hasTag(at::Tag::data_dependent_output) || op_.hasTag(at::Tag::dynamic_output_shape) ||
        kReaders.contains(name_of(op_))) {
      throw reads_values();
    }
  }

  Error reads_values() const {
    return Error("deferred_init: " + name_of(op_) +
                 " needs the values of a tensor, which this module's tensors do not have yet. " +
                 kRemedy);
  }

  // From now on, real tensors that the operator writes have no values yet either.
  void take_written_tensors() {
    for (size_t i = first_; i < stack_.size(); ++i) {
      if (!is_written(i - first_)) continue;
      for_each_tensor(stack_[i], [&](const at::Tensor& tensor) {
        if (tensor.defined() && !tensor.is_meta()) add_memory(tape_, tensor);
      });
    }
  }

  // Records an argument on the tape, and replaces it with one without values for the call.
  RecordedArgument take(size_t argument, c10::IValue& value) {
    using Kind = RecordedArgument::Kind;
    RecordedArgument recorded;
    const auto add = [&](const at::Tensor& tensor) {
      recorded.tensors.push_back(recorded_tensor(tensor));
      return stand_in(tensor);
    };
    if (value.isTensor()) {
      recorded.kind = Kind::tensor;
      value = add(value.toTensor());
    } else if (value.isTensorList()) {
      recorded.kind = Kind::tensors;
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(add(tensor));
      value = list;
    } else if (value.isOptionalTensorList()) {
      recorded.kind = Kind::optional_tensors;
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        const at::Tensor given = add(tensor.value_or(at::Tensor()));
        list.push_back(tensor ? std::optional(given) : std::nullopt);
      }
      value = list;
    } else {
      recorded.plain = value;
      take_plain(argument, value);
    }
    return recorded;
  }

  void take_plain(size_t argument, c10::IValue& value) {
    const std::string& name = op_.schema().arguments()[argument].name();
    if (name == "device" && (value.isDevice() || !has_tensors_)) value = c10::Device(at::kMeta);
    if (name == "pin_memory") value = c10::IValue();  // meta tensors cannot be pinned
    if (value.isGenerator()) keep_state(value.toGenerator());
  }

  void keep_state(const at::Generator& generator) {
    if (!generator.defined()) return;
    for (const auto& [known, state] : tape_.generators) {
      if (known == generator) return;
    }
    tape_.generators.emplace_back(generator, generator.get_state());
  }

  RecordedTensor recorded_tensor(const at::Tensor& tensor) const {
    RecordedTensor recorded;
    if (!tensor.defined()) return recorded;
    recorded.view = view_of(tape_, tensor);
    if (recorded.view) return recorded;
    if (tensor.is_meta()) {
      throw Error("deferred_init: " + name_of(op_) +
                  " got a meta tensor that was created outside deferred_init, so its values are "
                  "unknown. Create it inside");
    }
    recorded.is_copy = static_cast<int64_t>(tensor.nbytes()) <= kCopiedBytes;
    recorded.constant = tensor.detach();
    if (recorded.is_copy) recorded.constant = recorded.constant.clone();
    recorded.version = static_cast<int64_t>(recorded.constant._version());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      recorded.constant.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return recorded;
  }

  // For a real tensor, a meta tensor of the same shape; other tensors are returned unchanged.
  at::Tensor stand_in(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_meta()) return tensor;
    at::Tensor standing =
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      standing.unsafeGetTensorImpl()->set_wrapped_number(true);
    } else {
      standing.set_requires_grad(tensor.requires_grad());
    }
    stand_ins_.emplace_back(standing, tensor);
    return standing;
  }

  std::optional<size_t> overwritten(const Operation& operation) const {
    static const std::unordered_set<std::string> kOverwriting = {
        "aten::uniform_",     "aten::normal_",    "aten::fill_",      "aten::zero_",
        "aten::copy_",        "aten::random_",    "aten::cauchy_",    "aten::bernoulli_",
        "aten::exponential_", "aten::geometric_", "aten::log_normal_"};
    if (!kOverwriting.contains(name_of(op_))) return {};
    const at::Tensor& self = stack_[first_].toTensor();
    const std::optional<TensorView>& view = operation.arguments[0].tensors[0].view;
    if (!view || view->offset != 0 || !self.is_non_overlapping_and_dense() ||
        self.nbytes() != tape_.memories[view->memory].recorded.nbytes()) {
      return {};
    }
    for (size_t i = 1; i < operation.arguments.size(); ++i) {
      for (const RecordedTensor& other : operation.arguments[i].tensors) {
        if (other.view && other.view->memory == view->memory) return {};
      }
    }
    return view->memory;
  }

  void call(const std::vector<c10::IValue>& given) {
    try {
      op_.callBoxed(stack_);
    } catch (const c10::NotImplementedError&) {
      // A few operators have no meta implementation.
      if (!is_random() || touches_deferred_) std::throw_with_nested(no_shapes());
      draw_for_shapes(given);
    }
  }

  Error no_shapes() const {
    return Error("deferred_init: " + name_of(op_) +
                 " does not work on tensors without values (LibTorch has no meta implementation of "
                 "it). " +
                 kRemedy);
  }

  // For random operators without a meta implementation (randperm): draws to get the shape, then
  // discards the numbers.
  void draw_for_shapes(const std::vector<c10::IValue>& given) {
    std::vector<std::pair<at::Generator, at::Tensor>> states;
    for (const auto& [generator, first_state] : tape_.generators) {
      states.emplace_back(generator, generator.get_state());
    }
    stack_.resize(first_);
    for (const c10::IValue& value : given) {
      const bool is_meta = value.isDevice() && value.toDevice().is_meta();
      stack_.push_back(is_meta ? c10::IValue(c10::Device(at::kCPU)) : value);
    }
    op_.callBoxed(stack_);
    for (auto& [generator, state] : states) generator.set_state(state);
    stand_ins_.clear();
    for (size_t i = stack_.size() - op_.schema().returns().size(); i < stack_.size(); ++i) {
      if (!stack_[i].isTensor()) continue;
      const at::Tensor& drawn = stack_[i].toTensor();
      stack_[i] =
          at::empty_strided(drawn.sizes(), drawn.strides(), drawn.options().device(at::kMeta));
    }
  }

  // Records the results on the tape; results that are a stand-in, or share its memory, become the
  // real tensor.
  void give_back(Operation& operation) {
    const auto give = [&](const at::Tensor& result) {
      const at::Tensor given = real_of(result);
      RecordedTensor recorded;
      if (given.defined()) {
        require_memory(given);
        if (given.is_meta()) add_memory(tape_, given);
        recorded.view = view_of(tape_, given);
      }
      operation.results.push_back(std::move(recorded));
      return given;
    };
    const size_t count = op_.schema().returns().size();
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      c10::IValue& value = stack_[i];
      if (value.isTensor()) {
        value = give(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(give(tensor));
        value = list;
      }
    }
  }

  at::Tensor real_of(const at::Tensor& result) const {
    if (!result.defined() || !result.is_meta() || !result.has_storage()) return result;
    for (const auto& [standing, original] : stand_ins_) {
      if (result.is_same(standing)) return original;
      if (storage_key(result) == storage_key(standing)) {
        return original.as_strided(result.sizes(), result.strides(),
                                   original.storage_offset() + result.storage_offset());
      }
    }
    return result;
  }

  void require_memory(const at::Tensor& tensor) const {
    if (tensor.has_storage() && tensor.layout() == at::kStrided && !tensor.is_conj() &&
        !tensor.is_neg()) {
      return;
    }
    throw Error("deferred_init: " + name_of(op_) +
                " creates a tensor that is not plain strided memory (sparse, nested, or lazily "
                "conjugated), which cannot be deferred. Create it on an explicit device");
  }

  bool changes_something(const Operation& operation) const {
    if (is_random()) return true;
    for (size_t i = 0; i < operation.arguments.size(); ++i) {
      if (is_written(i)) return true;
    }
    return std::any_of(operation.results.begin(), operation.results.end(),
                       [](const RecordedTensor& result) { return result.view.has_value(); });
  }

  Tape& tape_;
  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  const size_t first_;  // the first argument's position on the stack
  bool touches_deferred_ = false, has_tensors_ = false, takes_device_ = false, on_cpu_ = true;
  std::optional<c10::Device> device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> stand_ins_;  // and the real tensors they replace
};

}  // namespace

void run_call(Tape& tape, const c10::OperatorHandle& op, std::vector<c10::IValue>& stack) {
  Call call(tape, op, stack);
  if (call.is_to_be_deferred()) {
    call.run_deferred();
  } else {
    call.run_at_once();
  }
}

std::optional<TensorView> view_of(const Tape& tape, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return {};
  const auto found = tape.memory_of.find(storage_key(tensor));
  if (found == tape.memory_of.end()) return {};
  return TensorView{found->second, tensor.sizes().vec(), tensor.strides().vec(),
                    tensor.storage_offset(), tensor.scalar_type()};
}

}  // namespace muster::deferred_detail
