// What a stage of ZeRO shards, as the engine asks for it. Pure.
#pragma once

#include "muster/sharding/zero_stage.h"

namespace muster {

struct StagePolicy {
  // A unit's gradients are reduce-scattered as soon as backward has produced all of them. Otherwise
  // DDP averages them, and each shard gets a view of its part.
  bool shards_gradients = false;
  // A unit is unsharded at its first use and resharded afterwards. Otherwise its parameters stay
  // unsharded, and updated weights are all-gathered after each step.
  bool shards_parameters = false;
};

constexpr StagePolicy policy_of(ZeroStage stage) {
  switch (stage) {
    case ZeroStage::none:
    case ZeroStage::zero1:
      return {.shards_gradients = false, .shards_parameters = false};
    case ZeroStage::zero2:
      return {.shards_gradients = true, .shards_parameters = false};
    case ZeroStage::zero3:
      return {.shards_gradients = true, .shards_parameters = true};
  }
  return {};
}

}  // namespace muster
