// Python's functions of numbers in a graph: sizes that are added, compared, divided. Source: _SYM_OPS in
// torch/_export/serde/serialize.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exported/exported_program.h"
#include "exported/graph_arguments.h"
#include "exported/graph_step.h"

namespace muster {

class NumberStep final : public GraphStep {
 public:
  using Function = c10::IValue (*)(const std::vector<c10::IValue>& arguments);

  // Null if the node's target is another.
  static std::unique_ptr<GraphStep> make(const GraphNode& node, const std::string& where);
  void run(Frame& frame) const override;

 private:
  Function function_ = nullptr;
  std::string target_;
  GraphValues arguments_;
  uint32_t output_ = 0;
};

}  // namespace muster
