#include "coordinator/findings/rules.h"

#include <algorithm>
#include <set>
#include <vector>

#include "coordinator/findings/eta.h"
#include "coordinator/findings/ledger.h"

namespace muster::coordinator {
namespace {

constexpr Rule kRules[] = {
    {"loss-not-finite", LossNotFinite},
    {"idle-devices", IdleDevices, "shared-device"},
    {"shared-device", SharedDevice},
    {"ranks-never-met", NeverMet},
    {"rank-missing", RankMissing},
    {"wait-ended", WaitEnded},
    {"ranks-wait", RanksWait, "rank-missing"},
    {"version-mismatch", VersionMismatch},
    {"no-progress", NoProgress},
    {"device-errors", DeviceErrors},
    {"throttled", Throttled},
    {"slow-rank", SlowRank, "throttled"},
    {"idle-rank", IdleRank, "idle-devices"},
    {"data-starved", DataStarved},
    // Replaced by slow-rank: the other ranks wait for a slow one in their communication.
    {"communication-bound", CommunicationBound, "slow-rank"},
    {"memory-near-limit", MemoryNearLimit},
    {"memory-growing", MemoryGrowing, "memory-near-limit"},
    {"loss-diverging", LossDiverging, "loss-not-finite"},
    {"checkpoints-too-rare", CheckpointsTooRare},
    {"checkpoints-too-slow", CheckpointsTooSlow},
};

void BlameSlowRanks(v1::Assessment& assessment) {
  for (const v1::Finding& finding : assessment.findings()) {
    if (finding.code() != "slow-rank" || finding.ranks().empty()) continue;
    v1::LedgerBlame* blame = assessment.mutable_ledger()->add_blames();
    blame->set_who("rank " + std::to_string(finding.ranks(0)) +
                   (finding.node().empty() ? "" : " on " + finding.node()));
    blame->set_what("the others waited for it");
    blame->set_us(finding.wasted_device_us());
    blame->set_times(1);
  }
}

}  // namespace

std::span<const Rule> Rules() { return kRules; }

v1::Assessment Assess(const Evidence& evidence) {
  v1::Assessment assessment;
  assessment.set_job(evidence.job.id());
  *assessment.mutable_ledger() = MakeLedger(evidence);
  std::vector<v1::Finding> found;
  std::set<std::string_view> codes;
  for (const Rule& rule : kRules) {
    std::optional<v1::Finding> finding = rule.look(evidence, assessment.ledger());
    if (!finding.has_value()) continue;
    finding->set_code(std::string(rule.code));
    if (!evidence.job.attempts().empty() && finding->attempt() == 0) {
      finding->set_attempt(evidence.job.attempts().rbegin()->number());
    }
    codes.insert(rule.code);
    found.push_back(*std::move(finding));
  }
  for (const Rule& rule : kRules) {
    if (!codes.contains(rule.instead)) continue;
    std::erase_if(found, [&](const v1::Finding& finding) { return finding.code() == rule.code; });
  }
  std::stable_sort(found.begin(), found.end(), [](const v1::Finding& a, const v1::Finding& b) {
    if (a.severity() != b.severity()) return a.severity() > b.severity();
    return a.wasted_device_us() > b.wasted_device_us();
  });
  for (v1::Finding& finding : found) *assessment.add_findings() = std::move(finding);
  BlameSlowRanks(assessment);
  if (const std::optional<int64_t> eta = EtaMs(evidence)) assessment.set_eta_ms(*eta);
  const AttemptHistory* newest = evidence.Newest();
  assessment.set_steps(newest == nullptr ? -1 : newest->last_step());
  assessment.set_steps_total(evidence.history.steps_total());
  return assessment;
}

}  // namespace muster::coordinator
