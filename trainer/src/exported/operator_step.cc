#include "exported/operator_step.h"

#include <ATen/core/stack.h>

#include <iterator>

namespace muster {

void OperatorStep::run(Frame& frame) const {
  if (only_in_training_of != nullptr && !only_in_training_of->is_training()) {
    // What is read of it is the value that it would have changed.
    if (outputs_.size() == 1 && outputs_[0].is_slot())
      frame.values[outputs_[0].slot()] = arguments.at(0).value(frame);
    return;
  }
  torch::jit::Stack stack;
  stack.reserve(arguments.size());
  for (const ArgumentSource& argument : arguments) stack.push_back(argument.value(frame));
  if (guard != nullptr) guard(stack);
  try {
    handle_.callBoxed(stack);
  } catch (c10::Error& error) {
    error.add_context("in " + title_);
    throw;
  }
  if (outputs_.size() == 1 && outputs_[0].is_slot() && stack.size() == 1) {
    frame.values[outputs_[0].slot()] = std::move(stack[0]);
  } else if (!outputs_.empty()) {
    store_results(outputs_, std::move(stack), frame, title_);
  }
}

}  // namespace muster
