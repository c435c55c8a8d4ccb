// What a job declares to compute in: the variable that `accelerate launch --mixed_precision` sets, and
// that both accelerate and the trainer SDK read. Pure.
#pragma once

#include <string>
#include <string_view>

#include "muster/v1/job.pb.h"

namespace muster::job {

inline constexpr char kPrecisionVariable[] = "ACCELERATE_MIXED_PRECISION";

// "bf16", "fp16" or "fp8"; empty: it declares none of them.
std::string PrecisionOf(const v1::JobSpec& spec);
// True for these and "no": a value that tells nothing else about a job.
bool IsPrecision(std::string_view value);

}  // namespace muster::job
