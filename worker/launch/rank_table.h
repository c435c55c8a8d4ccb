// The file with the addresses of all ranks' devices: HCCL's rank table, version 1.0. It saves ranks the
// negotiation, whose time grows with their number.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/kernel/shim_protocol.h"
#include "worker/base/paths.h"

namespace muster::v1 {
class LaunchAttempt;
}

namespace muster::worker {

// Empty: the launch has no table, or one with an address that is not an IP address, or with lists of
// different lengths: a bad table would fail the ranks, and without one they negotiate. Pure.
std::string RankTableText(const v1::LaunchAttempt& launch);

// Writes it to Paths::RankTable, for the ranks' account to read, if there is one. A file, not a link,
// which HCCL refuses. Errors: of the file.
absl::Status WriteRankTable(const Paths& paths, const AttemptKey& key,
                            const v1::LaunchAttempt& launch, const common::LaunchAccount& account);

}  // namespace muster::worker
