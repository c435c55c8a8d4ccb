// The coordinators that replace each other, as people see them. Pure.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "coordinator/stores/leading.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// `name`: of the one that answers.
v1::ListCoordinatorsResponse CoordinatorsIn(const HeadsView& view, const std::string& name,
                                            const common::Now& now);

}  // namespace muster::coordinator
