// Arguments of a node, made ready once for all calls: constants of the types that the operator's schema wants, and the places of
// the rest.
#pragma once

#include <ATen/core/function_schema.h>

#include <functional>
#include <string>
#include <vector>

#include "exported/exported_program.h"
#include "exported/graph_step.h"

namespace muster {

class ArgumentSource {
 public:
  enum class Kind : uint8_t {
    constant,
    slot,
    tensor_slot,  // a number in it becomes a tensor
    tensors,
    optional_tensors,
    integers,
    device,
    // By the mode of the module that the node belongs to.
    training_flag,
    training_probability
  };

  // Throws FormatError("<where>: <rule>") for an argument that the type cannot take.
  static ArgumentSource make(const GraphArgument& argument, const c10::Argument& wanted,
                             const std::string& where);
  static ArgumentSource of_device() { return ArgumentSource(Kind::device); }
  static ArgumentSource constant(c10::IValue value);
  // A constant flag or probability that holds in training only.
  static ArgumentSource in_training(c10::IValue value, const torch::nn::Module* module);

  c10::IValue value(const Frame& frame) const;
  // Null if it is not a constant.
  const c10::IValue* if_constant() const { return kind_ == Kind::constant ? &constant_ : nullptr; }

 private:
  explicit ArgumentSource(Kind kind) : kind_(kind) {}

  Kind kind_;
  c10::IValue constant_;
  std::vector<GraphArgument> items_;  // slots, none, integers
  uint32_t slot_ = 0;
  const torch::nn::Module* module_ = nullptr;
};

// The constant as it is, without a schema: for graphs that are called and functions of numbers.
c10::IValue plain_constant(const GraphArgument& argument, const std::string& where);

// Values as they are, without a schema: what a graph is called with or returns, and what functions of numbers take.
class GraphValues {
 public:
  GraphValues() = default;
  // Throws FormatError("<where>: …") for a constant that is neither a number, a text nor None.
  GraphValues(std::vector<GraphArgument> arguments, const std::string& where);

  size_t size() const { return arguments_.size(); }
  std::vector<c10::IValue> in(const Frame& frame) const;

 private:
  std::vector<GraphArgument> arguments_;
  std::vector<c10::IValue> constants_;  // empty for slots
};

// Stores what a node returns in its slots. Throws muster::Error if the results are of another number than the file says.
void store_results(const std::vector<GraphArgument>& outputs, std::vector<c10::IValue> results,
                   Frame& frame, const std::string& where);

}  // namespace muster
