// What a case of cases.json says, in the SDK's own words. The JSON's names are Python's.
#pragma once

#include <muster/trainer.h>

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace parity {

// Accelerate's exact behaviour, unless the case says "compat": false.
muster::AcceleratorOptions accelerator_options(const nlohmann::json& one);

// The case's optimizer over these parameters, prepared.
muster::PreparedOptimizer prepare_optimizer(muster::Accelerator& accelerator,
                                            const std::vector<at::Tensor>& parameters,
                                            const nlohmann::json& one);

muster::Schedule schedule_of(const nlohmann::json& options);

}  // namespace parity
