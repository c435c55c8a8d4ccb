// What is told about a rank that ended: the shim's facts, the error file, the end of its stderr.
// Any thread.
#pragma once

#include <optional>
#include <string>

#include "muster/v1/worker_service.pb.h"
#include "worker/paths.h"
#include "worker/shim_client.h"

namespace muster::worker {

// What the shim said. Touches no file.
v1::RankExit ReportFacts(const v1::LaunchAttempt& launch, const common::ShimLaunch& shim_launch,
                         const RankExited& exit);
// What the rank left behind: its files, so this may block.
void AddWords(const Paths& paths, const AttemptKey& key, v1::RankExit* report);

struct LastLines {
  std::string text;               // printable, whole lines when possible
  std::optional<uint32_t> fresh;  // how many of them, without empty ones, came just before the end
};
// The last bytes of a rank's stderr that are still on this node.
LastLines ReadLastLines(const Paths& paths, const AttemptKey& key, uint32_t rank, int64_t ended_ms);

}  // namespace muster::worker
