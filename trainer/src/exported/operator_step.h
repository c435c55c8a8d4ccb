// One operator of the dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "exported/exported_program.h"
#include "exported/graph_arguments.h"
#include "exported/graph_step.h"
#include "exported/operator_guards.h"

namespace muster {

class OperatorStep final : public GraphStep {
 public:
  // `title`: for messages.
  OperatorStep(c10::OperatorHandle handle, std::string title, std::vector<GraphArgument> outputs)
      : handle_(std::move(handle)), title_(std::move(title)), outputs_(std::move(outputs)) {}

  void run(Frame& frame) const override;

  std::vector<ArgumentSource> arguments;  // as many as the schema has
  OperatorGuard guard = nullptr;
  // Null: in both modes.
  const torch::nn::Module* only_in_training_of = nullptr;

 private:
  c10::OperatorHandle handle_;
  std::string title_;
  std::vector<GraphArgument> outputs_;
};

class SkippedStep final : public GraphStep {
 public:
  void run(Frame&) const override {}
};

}  // namespace muster
