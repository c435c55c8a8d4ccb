// A compiled graph: steps over numbered values. Training thread.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {

// Of one call of the net.
struct RunContext {
  at::Device device;  // which replaces all devices in the graph
  bool recomputes_blocks = false;
  // Kept alive by what is computed again in backward; null: the caller keeps it.
  std::shared_ptr<const torch::nn::Module> net = nullptr;
};

struct Frame {
  const RunContext& context;
  std::vector<c10::IValue> values;  // by slot; empty before they are made and after their last use
};

class GraphStep {
 public:
  virtual ~GraphStep() = default;
  virtual void run(Frame& frame) const = 0;

  // Slots that no later step reads.
  std::vector<uint32_t> last_uses;
};
using GraphSteps = std::vector<std::unique_ptr<GraphStep>>;

inline void run_steps(const GraphSteps& steps, Frame& frame) {
  for (const auto& step : steps) {
    step->run(frame);
    for (const uint32_t slot : step->last_uses) frame.values[slot] = c10::IValue();
  }
}

}  // namespace muster
