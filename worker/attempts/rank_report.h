// Makes the report about a rank that ended: the shim's facts, the error file, the end of its
// stderr. Any thread.
#pragma once

#include <optional>
#include <string>

#include "muster/v1/worker_service.pb.h"
#include "worker/base/paths.h"
#include "worker/launch/shim_client.h"

namespace muster::worker {

// The facts that the shim reported. Accesses no file.
v1::RankExit ReportFacts(const v1::LaunchAttempt& launch, const common::ShimLaunch& shim_launch,
                         const RankExited& exit);
// Adds the texts from the rank's files; may block. `secrets`: how many values must be hidden in them. If
// a value is gone, a fixed sentence replaces the texts.
void AddWords(const Paths& paths, const AttemptKey& key, size_t secrets, v1::RankExit* report);

struct LastLines {
  std::string text;  // printable, whole lines if possible
  std::optional<uint32_t>
      fresh;  // how many of them, empty ones excluded, were written just before the end
};
// The last bytes of a rank's stderr that are still on this node.
LastLines ReadLastLines(const Paths& paths, const AttemptKey& key, uint32_t rank, int64_t ended_ms);

}  // namespace muster::worker
