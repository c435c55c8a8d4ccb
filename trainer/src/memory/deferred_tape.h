// The tape of deferred initialization: the operators that a constructor called, in order, with
// their arguments. deferred_call.cc records it, and deferred_replay.cc replays it.
//
// During replay, values belong to a memory (the storage behind tensors), and a tensor is a view of
// one. LibTorch's own model is the same, so in-place operators, views, set_data and rewrapped
// tensors need no special rules. The tape keeps only storages, no tensors of the constructor: a
// second handle would change the behavior of some LibTorch factories.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/memory/deferred_init.h"

namespace muster::deferred_detail {

// A tensor of the constructor.
struct TensorView {
  size_t memory = 0;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  at::ScalarType dtype = at::kFloat;
};

// A tensor argument or result: a view, a real tensor that is only read, or neither (undefined, or a
// real tensor that nothing on the tape changes).
struct RecordedTensor {
  std::optional<TensorView> view;
  at::Tensor constant;
  int64_t version = 0;  // of the constant, if it is not a copy
  bool is_copy = false;
};

struct RecordedArgument {
  enum class Kind { plain, tensor, tensors, optional_tensors };
  Kind kind = Kind::plain;
  c10::IValue plain;
  std::vector<RecordedTensor> tensors;
};

struct Operation {
  c10::OperatorHandle op;
  std::vector<RecordedArgument> arguments;
  std::vector<RecordedTensor> results;  // the tensors among them, lists flattened
  // The memory of the first argument, when the operator writes all of it and reads none.
  std::optional<size_t> overwritten;
};

struct Memory {
  c10::Storage recorded;  // without bytes, except for a real tensor
  bool is_real = false;   // values are written in place
};

class Tape {
 public:
  std::vector<Memory> memories;
  std::unordered_map<const c10::StorageImpl*, size_t> memory_of;
  std::vector<Operation> operations;
  // The generators' initial states, the CPU's default one first.
  std::vector<std::pair<at::Generator, at::Tensor>> generators;
  caffe2::TypeMeta default_dtype;
  std::vector<DeferredTensor> tensors;
  bool replayed = false;
};

// Calls f with each tensor of the value, which may be a tensor or a list of them.
template <typename F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    f(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) f(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) f(tensor.value_or(at::Tensor()));
  }
}

// Runs an operator of the constructor, deferred or immediately, and records it if necessary.
// `stack`: first its arguments, then its results.
void run_call(Tape& tape, const c10::OperatorHandle& op, std::vector<c10::IValue>& stack);

// The view of a tensor whose memory is on the tape; empty for others.
std::optional<TensorView> view_of(const Tape& tape, const at::Tensor& tensor);

// Throws Error if a deferred_init is in progress on this thread.
void require_not_recording(const char* what);

}  // namespace muster::deferred_detail
