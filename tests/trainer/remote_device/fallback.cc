// All other operators: the CPU's kernels, run by the stream's thread on the device's memory. The
// shapes of results come from LibTorch's meta kernels, so that the host need not wait; where there
// is none, or the result is not a tensor, it does.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alias.h"
#include "generator.h"
#include "memory.h"
#include "registration.h"

namespace remote {
namespace {

using c10::IValue;
using Stack = torch::jit::Stack;

bool on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

// The value with each of its tensors replaced.
template <typename Change>
IValue changed(const IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

template <typename Use>
void for_each_tensor(const IValue& value, const Use& use) {
  changed(value, [&](const at::Tensor& tensor) {
    use(tensor);
    return tensor;
  });
}

at::Tensor shape_of(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(at::kMeta).requires_grad(false));
}

// A number that the host passes is read now, whatever the host does with it later.
at::Tensor read_now(const at::Tensor& number) {
  at::Tensor copy = number.clone();
  if (number.unsafeGetTensorImpl()->is_wrapped_number()) {
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return copy;
}

bool is_generator(const c10::Argument& argument) {
  return argument.type()->str().find("Generator") != std::string::npos;
}

// Convolutions of other devices have names of their own, for which the CPU has no kernel.
std::optional<c10::OperatorHandle> replacement(const std::string& name,
                                               std::vector<IValue>& given) {
  if (name == "aten::convolution_overrideable") {
    return c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  }
  if (name != "aten::convolution_backward_overrideable") return std::nullopt;
  const at::Tensor& weight = given[2].toTensor();
  const int64_t outputs = given[6].toBool() ? weight.size(1) * given[8].toInt() : weight.size(0);
  given.insert(given.begin() + 3, IValue(std::vector<int64_t>{outputs}));
  // There the mask is an array of three; the order of the rest is the same.
  return c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
}

class Call {
 public:
  Call(c10::OperatorHandle op, Stack* stack) : op_(std::move(op)), stack_(stack) {
    const size_t count = op_.schema().arguments().size();
    given_.assign(stack->end() - static_cast<int64_t>(count), stack->end());
    torch::jit::drop(*stack, count);
    returns_ = op_.schema().returns().size();
    if (auto other = replacement(op_.schema().name(), given_)) op_ = *other;
    for (const IValue& value : given_) for_each_tensor(value, [&](const at::Tensor& t) { see(t); });
    for (const IValue& value : given_) {
      if (!device_ && value.isDevice() && value.toDevice().type() == kType) {
        device_ = value.toDevice().has_index() ? value.toDevice() : current_device();
      }
    }
    if (!device_) device_ = current_device();
  }

  void run() {
    const c10::DeviceGuard guard(*device_);
    if (is_view()) return run_view();
    take_arguments();
    if (!host_must_wait_ && results_from_meta()) return queue();
    run_and_settle();
  }

 private:
  void see(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (!on_device(tensor)) {
      // Such as indices: the host could change them before they are read.
      host_must_wait_ |= tensor.dim() > 0;
      return;
    }
    TORCH_CHECK(!device_ || *device_ == tensor.device(), op_.schema().name(),
                " was given tensors on ", *device_, " and ", tensor.device());
    device_ = tensor.device();
  }

  bool is_view() const {
    for (const c10::Argument& result : op_.schema().returns()) {
      if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
    }
    return false;
  }

  // Reads no memory, so the host can do it.
  void run_view() {
    at::Tensor base;
    Stack stack;
    for (const IValue& value : given_) {
      stack.push_back(changed(value, [&](const at::Tensor& tensor) {
        if (!on_device(tensor)) return tensor;
        if (!base.defined()) base = tensor;
        return alias_of(tensor);
      }));
    }
    op_.callBoxed(stack);
    for (const IValue& result : stack) {
      stack_->push_back(
          changed(result, [&](const at::Tensor& view) { return view_over(base, view); }));
    }
  }

  void take_arguments() {
    const auto& arguments = op_.schema().arguments();
    for (size_t i = 0; i < given_.size(); ++i) {
      if (i < arguments.size() && is_generator(arguments[i])) {
        on_cpu_.push_back(next_draw(given_[i]));
      } else if (given_[i].isDevice()) {
        on_cpu_.push_back(c10::Device(at::kCPU));
      } else {
        on_cpu_.push_back(changed(given_[i], [](const at::Tensor& tensor) {
          if (on_device(tensor)) return alias_of(tensor);
          return tensor.defined() && tensor.dim() == 0 ? read_now(tensor) : tensor;
        }));
      }
    }
  }

  IValue next_draw(const IValue& given) const {
    const at::Generator generator =
        given.isNone() ? default_generator(device_->index()) : given.toGenerator();
    auto* const own = dynamic_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl());
    TORCH_CHECK(own != nullptr, op_.schema().name(), " needs a generator of ", *device_);
    const std::lock_guard lock(own->mutex_);
    return own->next_draw();
  }

  // Finds the shapes of the results without data; false if LibTorch cannot.
  bool results_from_meta() {
    if (!op_.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return false;
    for (const c10::Argument& result : op_.schema().returns()) {
      const auto kind = result.type()->kind();
      if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) return false;
    }
    shapes_.clear();
    Stack stack;
    for (size_t i = 0; i < given_.size(); ++i) {
      IValue shape = changed(given_[i], [](const at::Tensor& tensor) {
        return on_device(tensor) ? shape_of(tensor) : tensor;
      });
      if (given_[i].isDevice()) shape = c10::Device(at::kMeta);
      if (given_[i].isGenerator()) shape = IValue();
      shapes_.push_back(shape);
      stack.push_back(shape);
    }
    try {
      op_.callBoxed(stack);
    } catch (const c10::Error&) {
      return false;  // the CPU's kernel reports what is wrong, or does it
    }
    return resize_results(stack) && make_results(stack);
  }

  // Operators with `out` may be given tensors of another shape.
  bool resize_results(const Stack& /*results*/) {
    bool same = true;
    for (size_t i = 0; i < given_.size(); ++i) {
      std::vector<at::Tensor> wanted;
      for_each_tensor(shapes_[i], [&](const at::Tensor& shape) { wanted.push_back(shape); });
      size_t next = 0;
      for_each_tensor(given_[i], [&](const at::Tensor& tensor) {
        const at::Tensor& shape = wanted[next++];
        if (on_device(tensor)) same &= shape.sizes() == tensor.sizes();
      });
    }
    return same;
  }

  bool make_results(const Stack& shapes) {
    std::vector<IValue> made;
    const auto& returns = op_.schema().returns();
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (const IValue* written = written_argument(returns[i])) {
        made.push_back(*written);
        continue;
      }
      made.push_back(changed(shapes[i], [&](const at::Tensor& shape) {
        return shape.defined() ? at::empty_strided(shape.sizes(), shape.strides(),
                                                   shape.options().device(*device_))
                               : shape;
      }));
    }
    results_ = std::move(made);
    return true;
  }

  // The argument that the operator writes and returns, if it is one.
  const IValue* written_argument(const c10::Argument& result) const {
    if (result.alias_info() == nullptr) return nullptr;
    const auto& arguments = op_.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].alias_info() != nullptr &&
          *arguments[i].alias_info() == *result.alias_info()) {
        return &given_[i];
      }
    }
    return nullptr;
  }

  void queue() {
    std::vector<IValue> targets;
    for (const IValue& result : results_) {
      targets.push_back(changed(result, [](const at::Tensor& tensor) {
        return tensor.defined() ? alias_of(tensor) : tensor;
      }));
    }
    enqueue(current_stream(device_->index()),
            [op = op_, stack = Stack(on_cpu_), targets = std::move(targets),
             fresh = fresh_results()]() mutable {
              const at::AutoDispatchBelowADInplaceOrView below_autograd;
              op.callBoxed(stack);
              for (size_t i = 0; i < targets.size(); ++i) {
                if (fresh[i]) fill(targets[i], stack[i]);
              }
            });
    give();
  }

  std::vector<bool> fresh_results() const {
    std::vector<bool> fresh;
    for (const c10::Argument& result : op_.schema().returns()) {
      fresh.push_back(written_argument(result) == nullptr);
    }
    return fresh;
  }

  static void fill(const IValue& target, const IValue& computed) {
    std::vector<at::Tensor> values;
    for_each_tensor(computed, [&](const at::Tensor& value) { values.push_back(value); });
    size_t next = 0;
    for_each_tensor(target, [&](const at::Tensor& tensor) {
      const at::Tensor& value = values.at(next++);
      if (!tensor.defined() || !value.defined()) return;
      TORCH_CHECK(tensor.sizes() == value.sizes(), "a result has the shape ", value.sizes(),
                  ", and not ", tensor.sizes());
      at::Tensor(tensor).copy_(value);
    });
  }

  void run_and_settle() {
    Stack stack(on_cpu_);
    run_and_wait(current_stream(device_->index()), [&] {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op_.callBoxed(stack);
    });
    for (size_t i = 0; i < given_.size(); ++i) settle(given_[i], on_cpu_[i]);
    const auto& returns = op_.schema().returns();
    for (size_t i = 0; i < stack.size(); ++i) {
      if (const IValue* written = written_argument(returns[i])) {
        results_.push_back(*written);
        continue;
      }
      results_.push_back(changed(stack[i], [&](const at::Tensor& value) {
        return value.defined() ? value.to(*device_) : value;
      }));
    }
    give();
  }

  // A kernel may have given an `out` another shape, and other memory for it.
  static void settle(const IValue& given, const IValue& used) {
    std::vector<at::Tensor> aliases;
    for_each_tensor(used, [&](const at::Tensor& alias) { aliases.push_back(alias); });
    size_t next = 0;
    for_each_tensor(given, [&](const at::Tensor& tensor) {
      const at::Tensor& alias = aliases[next++];
      if (!on_device(tensor) || tensor.sizes() == alias.sizes()) return;
      tensor.resize_(alias.sizes());
      at::Tensor(tensor).copy_(alias);
    });
  }

  void give() {
    for (size_t i = 0; i < returns_; ++i) stack_->push_back(std::move(results_[i]));
  }

  c10::OperatorHandle op_;
  Stack* const stack_;
  std::vector<IValue> given_, on_cpu_, shapes_, results_;
  size_t returns_ = 0;
  std::optional<c10::Device> device_;
  bool host_must_wait_ = false;
};

void run_elsewhere(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  Call(op, stack).run();
}

// Where LibTorch has both, the CPU's kernel is preferred to one that is made of other operators:
// results are then the CPU's, to the bit. And fused optimizers are found only if they are
// registered.
std::vector<std::string> preferred_on_cpu() {
  const std::set<std::string> own = {"empty.memory_format", "empty_strided", "native_dropout"};
  std::vector<std::string> names = {"convolution_overrideable",
                                    "convolution_backward_overrideable"};
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !op->hasSchema() || !name.name.starts_with("aten::")) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    const std::string text =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    const bool composite =
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
    if ((composite || text.starts_with("_fused_")) && !own.contains(text)) names.push_back(text);
  }
  return names;
}

}  // namespace

void register_fallback() {
  static auto* const all = new torch::Library(torch::Library::IMPL, "_",
                                              c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&run_elsewhere>());
  static auto* const aten = new torch::Library(torch::Library::IMPL, "aten",
                                               c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const std::string& name : preferred_on_cpu()) {
    aten->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_elsewhere>());
  }
}

}  // namespace remote
