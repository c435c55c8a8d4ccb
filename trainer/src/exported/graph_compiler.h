// Makes a foreign graph ready to run: looks up its operators, checks that it may call them, and makes their arguments.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exported/exported_program.h"
#include "exported/graph_arguments.h"
#include "exported/graph_step.h"

namespace muster {

// What a graph says of the mode that it was exported in: the first operators of each kind, with their modules.
struct ModeEvidence {
  std::string training;    // has its flag or probability on
  std::string evaluation;  // has it off
  std::string fixed;       // may depend on the mode, and cannot be switched
};

struct CompileOptions {
  std::string where;  // the file
  std::vector<std::string> allowed_operators;
  // The module of a path; never null.
  std::function<const torch::nn::Module*(const std::string& path)> module_at;
  // Names of the children of the outermost lists, "layers.0": their nodes are computed again in backward if
  // RunContext::recomputes_blocks.
  std::set<std::string, std::less<>> blocks;
  // Slots of a graph that is called which hold a counter of batch normalization.
  std::set<uint32_t> counters = {};
};

class CompiledGraph {
 public:
  // Throws FormatError("<where>: …") for what is unknown or not allowed. `weight_slots`: those that hold
  // parameters, buffers and constants.
  CompiledGraph(const ExportedGraph& graph, const CompileOptions& options,
                const std::vector<uint32_t>& weight_slots, ModeEvidence& evidence);

  // Places of the inputs that the graph changes, itself or by a view.
  const std::vector<size_t>& written_inputs() const { return written_inputs_; }

  // As many inputs as the graph has; constants among them are ignored.
  std::vector<c10::IValue> run(const RunContext& context, std::vector<c10::IValue> inputs) const;

 private:
  std::vector<GraphArgument> inputs_;
  GraphValues outputs_;
  std::vector<size_t> written_inputs_;
  size_t slots_ = 0;
  GraphSteps steps_;
};

}  // namespace muster
