// The addresses of all ranks' devices, for kinds whose runtime reads them from a file (HCCL's rank table).
// The worker writes the file (worker/launch/rank_table.h). Pure.
#pragma once

#include "coordinator/core/state/state.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// Nothing, if an address is not known, ranks have more than one device, two nodes have one address,
// there are too many ranks, or a device's series does not read such a table: ranks then negotiate, while a wrong table would fail them.
void FillRankTable(const SchedulingState& state, const v1::Attempt& attempt,
                   v1::LaunchAttempt* launch);

}  // namespace muster::coordinator
