// What is told about a rank that ended: the shim's facts, the error file, the end of its stderr.
// Any thread; reads small files.
#pragma once

#include "muster/v1/worker_service.pb.h"
#include "worker/paths.h"
#include "worker/shim_client.h"

namespace muster::worker {

v1::RankExit ReportExit(const Paths& paths, const v1::LaunchAttempt& launch,
                        const common::ShimLaunch& shim_launch, const RankExited& exit);

// The last bytes of a rank's stderr that are still on this node, printable, whole lines when
// possible.
std::string LastLines(const Paths& paths, const AttemptKey& key, uint32_t rank);

}  // namespace muster::worker
