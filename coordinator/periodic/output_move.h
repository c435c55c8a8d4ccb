// Moves output and metrics of finished jobs, which the data directory had before there was an object store, into that, one
// job after the other. All can be read all the while; a kill at any point loses nothing. The leader alone does it, of its
// own directory.
#pragma once

#include "coordinator/base/work_pool.h"
#include "coordinator/stores/file_move.h"
#include "coordinator/stores/job_index.h"

namespace muster::coordinator {

// Looks now and every hour for jobs that have ended, until the pool stops. All outlive what it runs.
void MoveOutputIntoObjects(FileMove& move, JobIndex& index, WorkPool& pool);

}  // namespace muster::coordinator
