// Rules about ranks that do not take part: each trains alone, or one has stopped working.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

// Imports and data loading come before a process group.
constexpr int64_t kMeetFloors = 2;
// Checks of the sockets, one per second: fewer than this prove nothing about a job that is over.
constexpr int64_t kLooksLeast = 2;
constexpr int64_t kIdleFloors = 2;
constexpr int64_t kIdleFloorsWithoutSteps = 5;
constexpr double kWorkingCores = 0.5;  // of the others

// How long the rank has been waiting, judging by its processor use, in milliseconds.
int64_t IdleMs(const RankSamples& rank) {
  if (rank.newest.empty()) return 0;
  constexpr int64_t kSampleMs = 1'000;
  if (rank.idle_since_ms == 0) return rank.samples * kSampleMs;
  return rank.newest.back().first - rank.idle_since_ms;
}

double MeanCores(const RankSamples& rank) {
  if (rank.newest.empty()) return 0;
  double sum = 0;
  for (const auto& [time_ms, sample] : rank.newest) sum += sample.cpu_cores();
  return sum / static_cast<double>(rank.newest.size());
}

bool UsesDevice(const Evidence& evidence, const v1::NodePart& part, uint32_t rank) {
  for (const std::string& device : DevicesOfRank(part, rank)) {
    const auto measured = evidence.samples.devices().find({part.node(), device});
    if (measured == evidence.samples.devices().end()) continue;
    for (const auto& [time_ms, sample] : measured->second.newest) {
      if (!sample.has_utilization() || sample.utilization() >= kBusyUtilization) return true;
    }
  }
  return false;
}

// How long a rank may be idle. While no step is gained, it may wait for an evaluation on another
// rank. 0: no length of time makes it a finding.
int64_t PatienceMs(const Evidence& evidence) {
  const AttemptHistory* history = evidence.Newest();
  if (history == nullptr || history->marks().empty()) {
    return kIdleFloorsWithoutSteps * evidence.floor_ms;
  }
  return evidence.QuietMs() < evidence.floor_ms ? kIdleFloors * evidence.floor_ms : 0;
}

}  // namespace

// Several ranks, and none of them has formed a process group: each trains alone, on all data, and
// writes the same files.
// Silent: for two floors after the start, unless the job has succeeded by then; with one rank; once
// a process was seen that listens on MASTER_PORT, or two ranks with a connection; where workers do
// not check sockets; about jobs that failed.
std::optional<v1::Finding> NeverMet(const Evidence& evidence, const v1::Ledger&) {
  if (evidence.job.attempts().empty()) return std::nullopt;
  const v1::Attempt& attempt = *evidence.job.attempts().rbegin();
  if (attempt.world_size() < 2 || evidence.samples.attempt() != attempt.number()) {
    return std::nullopt;
  }
  const bool is_over = evidence.job.state() == v1::JOB_STATE_SUCCEEDED;
  const bool runs_long =
      evidence.Running() != nullptr && evidence.RanMs() >= kMeetFloors * evidence.floor_ms;
  if (!is_over && !runs_long) return std::nullopt;
  if (evidence.samples.apart() < kLooksLeast) return std::nullopt;
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {absl::StrCat("the ", attempt.world_size(), " ranks never met: no process listened on ",
                    "MASTER_PORT, and no rank was connected to another"),
       "the program does not form a process group: each rank trains alone, on all data, and writes "
       "the same files",
       "three lines: torch.distributed.init_process_group(); model = "
       "DistributedDataParallel(model); DataLoader(data, sampler=DistributedSampler(data)). If the "
       "ranks are meant to be independent, nothing is wrong"});
  AddNumber(finding, "world size", attempt.world_size());
  AddNumber(finding, "looks", static_cast<double>(evidence.samples.apart()));
  return finding;
}

// A rank has used less than 5 % of a processor for two floors (five where no steps are reported),
// while the others work and steps are gained.
// Silent: with one rank; while no step is gained; when more than half of the ranks are idle (an evaluation on a few of them,
// the end); about a rank whose device is busy; when the others do not use half a core either.
std::optional<v1::Finding> IdleRank(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  if (attempt == nullptr || attempt->world_size() < 2 ||
      evidence.samples.attempt() != attempt->number()) {
    return std::nullopt;
  }
  const int64_t patience_ms = PatienceMs(evidence);
  if (patience_ms == 0) return std::nullopt;
  std::vector<uint32_t> idle;
  size_t working = 0;
  for (const auto& [number, rank] : evidence.samples.ranks()) {
    const v1::NodePart* part = PartOf(*attempt, number);
    if (part == nullptr) continue;
    if (IdleMs(rank) >= patience_ms && !UsesDevice(evidence, *part, number)) {
      idle.push_back(number);
    } else if (MeanCores(rank) >= kWorkingCores) {
      ++working;
    }
  }
  if (idle.empty() || idle.size() > working) return std::nullopt;
  const RankSamples& first = evidence.samples.ranks().at(idle.front());
  const double cores = MeanCores(first);
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {absl::StrCat(RankOnNode(*attempt, idle.front()),
                    idle.size() > 1 ? absl::StrCat(" and ", idle.size() - 1, " more") : "",
                    idle.size() > 1 ? " have" : " has", " used ", Percent(cores),
                    " of a processor for ", ShortTime(static_cast<double>(IdleMs(first)) / 1e3),
                    ", while the others work"),
       "it waits for something that the others do not wait for: data, a lock, a file, a slow "
       "network",
       absl::StrCat("jobctl stack ", evidence.job.name(), " --rank ", idle.front())});
  AddNumber(finding, "processor use", cores, "cores");
  AddNumber(finding, "idle for", static_cast<double>(IdleMs(first)) / 1e3, "s");
  for (const uint32_t rank : idle) finding.add_ranks(rank);
  finding.set_node(first.node);
  SetWaste(finding,
           static_cast<double>(IdleMs(first)) / 1e3 * static_cast<double>(DevicesOf(*attempt)) *
               static_cast<double>(idle.size()) / static_cast<double>(attempt->world_size()));
  return finding;
}

}  // namespace muster::coordinator
