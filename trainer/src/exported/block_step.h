// A block of the net whose values are computed again in backward; see muster/memory/activation_checkpoint.h.
#pragma once

#include <vector>

#include "exported/graph_step.h"

namespace muster {

class BlockStep final : public GraphStep {
 public:
  explicit BlockStep(size_t slots) : slots_(slots) {}

  void run(Frame& frame) const override;

  // Slots: what the block reads, without weights; those; and what others read of what it makes.
  std::vector<uint32_t> inputs, weights, outputs;
  // Shared with the autograd graph of each call, which may outlive the net's handle.
  std::shared_ptr<GraphSteps> steps = std::make_shared<GraphSteps>();

 private:
  size_t slots_;
};

}  // namespace muster
