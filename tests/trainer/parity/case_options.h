// Converts a case of cases.json to the SDK's options. The JSON uses Python's names.
#pragma once

#include <muster/trainer.h>

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace parity {

// Accelerate's exact behavior, unless the case has "compat": false.
muster::AcceleratorOptions accelerator_options(const nlohmann::json& one);

// The case's optimizer over these parameters, prepared.
muster::PreparedOptimizer prepare_optimizer(muster::Accelerator& accelerator,
                                            const std::vector<at::Tensor>& parameters,
                                            const nlohmann::json& one);

muster::Schedule schedule_of(const nlohmann::json& options);

}  // namespace parity
