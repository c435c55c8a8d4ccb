// What is told about a rank that ended: the shim's facts, the error file, the end of its stderr.
// Any thread.
#pragma once

#include "muster/v1/worker_service.pb.h"
#include "worker/paths.h"
#include "worker/shim_client.h"

namespace muster::worker {

// What the shim said. Touches no file.
v1::RankExit ReportFacts(const v1::LaunchAttempt& launch, const common::ShimLaunch& shim_launch,
                         const RankExited& exit);
// What the rank left behind: its files, so this may block.
void AddWords(const Paths& paths, const AttemptKey& key, v1::RankExit* report);

// The last bytes of a rank's stderr that are still on this node, printable, whole lines when
// possible.
std::string LastLines(const Paths& paths, const AttemptKey& key, uint32_t rank);

}  // namespace muster::worker
