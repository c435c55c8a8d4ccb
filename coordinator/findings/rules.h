// The rules that turn numbers into findings, and their table. Each rule looks at the evidence of
// one moment and is silent or has one finding; nothing is remembered between two looks, so a
// finding disappears with its cause. The comment above each rule lists when it is silent.
// docs/findings.md describes them for users. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "coordinator/findings/evidence.h"
#include "muster/v1/finding.pb.h"

namespace muster::coordinator {

// The ledger of the same evidence comes along: what was lost is evidence, too.
using Look = std::optional<v1::Finding> (*)(const Evidence&, const v1::Ledger&);

struct Rule {
  std::string_view code;
  Look look;
  std::string_view instead = "";  // silent while the rule of this code finds something: its cause
};

std::span<const Rule> Rules();

// devices_rules.cc
std::optional<v1::Finding> IdleDevices(const Evidence& evidence, const v1::Ledger& ledger);
std::optional<v1::Finding> SharedDevice(const Evidence& evidence, const v1::Ledger& ledger);
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
