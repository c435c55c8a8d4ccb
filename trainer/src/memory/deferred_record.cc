// Writes the tape: a fallback for all operators on a dispatch key that is switched on, for this
// thread, while a constructor runs inside deferred_init; see deferred_init.h.
//
// The key TESTING_ONLY_GenericMode stands above autograd and everything below, so that the fallback
// meets the operators as the constructor calls them, before they take themselves apart.
#include <ATen/Context.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <unordered_set>

#include "muster/base/errors.h"

#include "memory/deferred_tape.h"

namespace muster::deferred_detail {
namespace {

constexpr c10::DispatchKey kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

// The tape of the constructor that runs in this thread: a fallback is a plain function.
thread_local Tape* recording = nullptr;

void record_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(kMode);
  if (recording == nullptr) {
    op.callBoxed(stack);
    return;
  }
  run_call(*recording, op, *stack);
}

// LibTorch takes one fallback for a key in a process, and several shared objects of a process may
// hold this file: it is there only while a constructor of this one is recorded.
class Fallback {
 public:
  Fallback() {
    const std::lock_guard lock(mutex_);
    if (users_ == 0) {
      if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kMode)) {
        throw Error(
            "deferred_init: another library of this process is using the dispatch key "
            "TESTING_ONLY_GenericMode (a deferred_init of its own, on another thread?): "
            "call one after the other");
      }
      registered_.emplace(torch::Library::IMPL, "_", kMode, __FILE__, __LINE__);
      registered_->fallback(torch::CppFunction::makeFromBoxedFunction<&record_operator>());
    }
    ++users_;
  }
  ~Fallback() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) registered_.reset();
  }
  Fallback(const Fallback&) = delete;
  Fallback& operator=(const Fallback&) = delete;

 private:
  inline static std::mutex mutex_;  // guards what follows
  inline static int users_ = 0;     // recordings under way, on any thread
  inline static std::optional<torch::Library> registered_;
};

// The constructor's scope.
class Recording {
 public:
  explicit Recording(Tape& tape) : mode_(kMode) { recording = &tape; }
  ~Recording() { recording = nullptr; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Fallback fallback_;
  c10::impl::IncludeDispatchKeyGuard mode_;
};

void list_tensors(Tape& tape, const torch::nn::Module& module) {
  std::unordered_set<const at::TensorImpl*> known;
  const auto add = [&](const auto& named, bool is_buffer) {
    for (const auto& item : named) {
      if (!item.value().defined() || !known.insert(item.value().unsafeGetTensorImpl()).second) {
        continue;
      }
      tape.tensors.push_back({item.key(), item.value(), is_buffer});
    }
  };
  add(module.named_parameters(), false);
  add(module.named_buffers(), true);
}

// Tensors that outlive the constructor but that materialize does not know.
void warn_of_unregistered(const Tape& tape) {
  std::unordered_set<size_t> registered, warned;
  for (const DeferredTensor& each : tape.tensors) {
    if (const auto view = view_of(tape, each.tensor)) registered.insert(view->memory);
  }
  for (const Operation& operation : tape.operations) {
    for (const RecordedTensor& result : operation.results) {
      if (!result.view) continue;
      const size_t memory = result.view->memory;
      // One reference is the tape's own.
      const bool is_kept = tape.memories[memory].recorded.use_count() > 1;
      if (tape.memories[memory].is_real || !is_kept || registered.contains(memory) ||
          !warned.insert(memory).second) {
        continue;
      }
      TORCH_WARN("deferred_init: a tensor of shape ", at::IntArrayRef(result.view->sizes),
                 " made by ", operation.op.operator_name().name,
                 " is kept, but is neither a parameter nor a buffer of the module: it will have no "
                 "values. Register it, or make it on a device of its own (torch::kCPU)");
    }
  }
}

}  // namespace

void require_not_recording(const char* what) {
  if (recording != nullptr) {
    throw Error(std::string(what) + " was called inside of a deferred_init of the same thread");
  }
}

std::shared_ptr<Tape> record(const std::function<torch::nn::Module&()>& build) {
  require_not_recording("deferred_init");
  auto tape = std::make_shared<Tape>();
  tape->default_dtype = c10::get_default_dtype();
  const at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  tape->generators.emplace_back(generator, generator.get_state());
  const torch::nn::Module* module = nullptr;
  {
    const Recording scope(*tape);
    module = &build();
  }
  list_tensors(*tape, *module);
  warn_of_unregistered(*tape);
  return tape;
}

const std::vector<DeferredTensor>& tensors_of(const Tape& tape) { return tape.tensors; }

bool is_replayed(const Tape& tape) { return tape.replayed; }

}  // namespace muster::deferred_detail
