// A comparison as a message. Pure.
#pragma once

#include "compare/comparison.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

v1::CompareBy CompareByOf(compare::By by);
// Numbers, words and the rows to show.
v1::JobComparison MessageOf(const compare::Comparison& pair, const compare::ComparisonSetup& setup);

}  // namespace muster::coordinator
