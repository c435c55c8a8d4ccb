// A module whose parameters an earlier Accelerator, or free_memory(), left in shards.
#pragma once

#include <torch/nn/module.h>

#include <functional>

#include "muster/memory/deferred_init.h"
#include "parallel/process_group.h"

namespace muster {

// Takes the shards: the parameters are then on the meta device, in their own dtype, and the result
// gives them their values, gathering one unit at a time over `group`. Null if there are no shards. A
// model that still has them leaves them first. The result is collective.
std::function<void(const PlaceValue&)> take_left_shards(torch::nn::Module& module,
                                                        const ProcessGroupPtr& group,
                                                        at::Device device);

}  // namespace muster
