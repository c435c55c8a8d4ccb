// Records the tape: a fallback for all operators on a dispatch key that is enabled, for this
// thread, while a constructor runs inside deferred_init; see deferred_init.h.
//
// The key TESTING_ONLY_GenericMode has a higher priority than autograd and everything below it, so
// the fallback sees the operators as the constructor calls them, before they are decomposed.
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

// The tape of the constructor running in this thread; thread-local because a fallback is a plain
// function.
thread_local Tape* recording = nullptr;

void record_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(kMode);
  if (recording == nullptr) {
    op.callBoxed(stack);
    return;
  }
  run_call(*recording, op, *stack);
}

// LibTorch allows one fallback per key in a process, and several shared objects may contain this
// file, so the fallback is registered only while one of this object's constructors is recorded.
class Fallback {
 public:
  Fallback() {
    const std::lock_guard lock(mutex_);
    if (users_ == 0) {
      if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kMode)) {
        throw Error(
            "deferred_init: another library in this process is using the dispatch key "
            "TESTING_ONLY_GenericMode (its own deferred_init, on another thread?): "
            "call them one after the other");
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
  inline static std::mutex mutex_;  // guards the members below
  inline static int users_ = 0;     // active recordings, on any thread
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

// Warns about tensors that outlive the constructor but are unknown to materialize.
void warn_of_unregistered(const Tape& tape) {
  std::unordered_set<size_t> registered, warned;
  for (const DeferredTensor& each : tape.tensors) {
    if (const auto view = view_of(tape, each.tensor)) registered.insert(view->memory);
  }
  for (const Operation& operation : tape.operations) {
    for (const RecordedTensor& result : operation.results) {
      if (!result.view) continue;
      const size_t memory = result.view->memory;
      // One reference is the tape's.
      const bool is_kept = tape.memories[memory].recorded.use_count() > 1;
      if (tape.memories[memory].is_real || !is_kept || registered.contains(memory) ||
          !warned.insert(memory).second) {
        continue;
      }
      TORCH_WARN("deferred_init: a tensor of shape ", at::IntArrayRef(result.view->sizes),
                 " made by ", operation.op.operator_name().name,
                 " is kept, but is neither a parameter nor a buffer of the module: it will have no "
                 "values. Register it, or create it on an explicit device (torch::kCPU)");
    }
  }
}

}  // namespace

void require_not_recording(const char* what) {
  if (recording != nullptr) {
    throw Error(std::string(what) + " was called inside a deferred_init on the same thread");
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
