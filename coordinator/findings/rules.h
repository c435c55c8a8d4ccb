// The rules that turn numbers into findings, and their table. Each rule looks at the evidence of
// one moment and returns one finding or none; it remembers nothing between two looks, so a finding
// disappears with its cause. The comment above each rule lists when it is silent.
// docs/findings.md describes them for users. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "coordinator/findings/evidence.h"
#include "muster/v1/finding.pb.h"

namespace muster::coordinator {

// Rules also get the ledger of the same evidence, because lost time is evidence, too.
using Look = std::optional<v1::Finding> (*)(const Evidence&, const v1::Ledger&);

struct Rule {
  std::string_view code;
  Look look;
  std::string_view instead = "";  // the code of its cause: silent while that rule has a finding
};

std::span<const Rule> Rules();

// devices_rules.cc
std::optional<v1::Finding> IdleDevices(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> SharedDevice(const Evidence& evidence, const v1::Ledger& ledger);
// rank_rules.cc
std::optional<v1::Finding> RankMissing(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> RanksWait(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> WaitEnded(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> NeverMet(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> IdleRank(const Evidence& evidence, const v1::Ledger& ledger);
// health_rules.cc
std::optional<v1::Finding> Throttled(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> DeviceErrors(const Evidence& evidence, const v1::Ledger& ledger);
// step_rules.cc
std::optional<v1::Finding> DataStarved(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> CommunicationBound(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> SlowRank(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> NoProgress(const Evidence& evidence, const v1::Ledger& ledger);
// memory_rules.cc
std::optional<v1::Finding> MemoryNearLimit(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> MemoryGrowing(const Evidence& evidence, const v1::Ledger& ledger);
// loss_rules.cc
std::optional<v1::Finding> LossNotFinite(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> LossDiverging(const Evidence& evidence, const v1::Ledger& ledger);
// version_rules.cc
std::optional<v1::Finding> VersionMismatch(const Evidence& evidence, const v1::Ledger& ledger);
// checkpoint_rules.cc
std::optional<v1::Finding> CheckpointsTooRare(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> CheckpointsTooSlow(const Evidence& evidence, const v1::Ledger& ledger);

// All findings, the worst first, with the ledger and the ETA.
v1::Assessment Assess(const Evidence& evidence);

}  // namespace muster::coordinator
