// Rules about the parts of a step and its pace.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

// The first steps are unlike the others: caches, compilation, the loader's workers start.
constexpr int64_t kWarmUpSteps = 20;
// A job that waits for data this long gains from another loader worker or two.
constexpr double kStarvedShare = 0.3;
// Gradients always cost communication; above this share, more devices hardly help.
constexpr double kCommunicationShare = 0.4;
// Ranks differ by a few percent in any job; a quarter means that one holds up all others.
constexpr double kSlowRatio = 1.25;
// As long as ten steps took, but at least three times the longest pause so far (an evaluation, a
// checkpoint) and the floor.
constexpr double kQuietSteps = 10;
constexpr int64_t kQuietPauses = 3;
constexpr int64_t kStepsBeforeQuiet = 3;
// While all ranks compute, it may be an evaluation: wait ten times as long.
constexpr int64_t kBusyFactor = 10;
constexpr double kComputingCores = 0.5;

bool IsWarm(const Evidence& evidence, const RankTimes& times) {
  return evidence.Running() != nullptr && evidence.RanMs() >= evidence.floor_ms &&
         times.newest.size() == RankTimes::kWindowsKept &&
         times.newest.back().step - times.first_step >= kWarmUpSteps;
}

// The smallest share of the part in the newest windows, over the ranks that report: all must agree.
double SteadyShare(const Evidence& evidence, StepTime part) {
  const AttemptHistory* history = evidence.Newest();
  if (history == nullptr || history->ranks().empty()) return 0;
  double least = 1;
  for (const auto& [rank, times] : history->ranks()) {
    if (!IsWarm(evidence, times)) return 0;
    for (const StepWindow& window : times.newest) {
      least = std::min(least, window.mean.total > 0 ? window.mean[part] / window.mean.total : 0);
    }
  }
  return least;
}

// Device time in a part since the attempt began, from the mean over the reporting ranks.
double PartDeviceSeconds(const Evidence& evidence, StepTime part) {
  const AttemptHistory* history = evidence.Newest();
  return history->Times()[part] / static_cast<double>(history->ranks().size()) *
         static_cast<double>(DevicesOf(evidence.job));
}

double RecentMean(const AttemptHistory& history, StepTime part) {
  double sum = 0;
  for (const auto& [rank, times] : history.ranks()) sum += times.newest.back().mean[part];
  return sum / static_cast<double>(history.ranks().size());
}

// A rank's own work: its step without the communication, in which it waits for others.
double OwnSeconds(const StepWindow& window) {
  return window.mean.total - window.mean[StepTime::kCommunication];
}

// The number that shows a slow rank.
enum class Sign { kOwnTime, kDataWait };

double SecondsOf(const StepWindow& window, Sign sign) {
  return sign == Sign::kOwnTime ? OwnSeconds(window) : window.mean[StepTime::kData];
}

struct Slowest {
  uint32_t rank = 0;
  double own = 0;
  double median = 0;  // of the others
  double total = 0;   // its whole step
};

// In the window `back` windows before the newest.
Slowest FindSlowest(const AttemptHistory& history, size_t back, Sign sign) {
  Slowest slowest;
  std::vector<double> others;
  for (const auto& [rank, times] : history.ranks()) {
    const StepWindow& window = times.newest[times.newest.size() - 1 - back];
    const double own = SecondsOf(window, sign);
    if (own > slowest.own) {
      slowest.rank = rank;
      slowest.own = own;
      slowest.total = window.mean.total;
    }
    others.push_back(own);
  }
  others.erase(std::find(others.begin(), others.end(), slowest.own));
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  slowest.median = *middle;
  return slowest;
}

// By this sign the same rank holds up the others in each of the newest windows. Where no rank reports
// communication, the collectives hide in every rank's compute time and make all steps equally long;
// then only a longer wait for data shows which rank the others wait for.
bool IsSlow(const Slowest& then, Sign sign) {
  if (sign == Sign::kOwnTime) return then.own >= then.median * kSlowRatio;
  return then.own > 0 && then.own - then.median >= then.total * (kSlowRatio - 1);
}

std::optional<Slowest> FindSlow(const AttemptHistory& history, Sign sign) {
  const Slowest slowest = FindSlowest(history, 0, sign);
  for (size_t back = 0; back < RankTimes::kWindowsKept; ++back) {
    const Slowest then = FindSlowest(history, back, sign);
    if (then.rank != slowest.rank || !IsSlow(then, sign)) return std::nullopt;
  }
  return slowest;
}

// Whether all ranks that were measured compute right now.
bool AllCompute(const Evidence& evidence) {
  const SampleHistory& samples = evidence.samples;
  if (samples.ranks().empty() || samples.attempt() != evidence.Running()->number()) return false;
  return std::all_of(samples.ranks().begin(), samples.ranks().end(), [](const auto& entry) {
    const auto& newest = entry.second.newest;
    return !newest.empty() && newest.back().second.cpu_cores() >= kComputingCores;
  });
}

}  // namespace

// Every rank that reports waits for data for 30 % of each step or more.
// Silent: for one floor after the start, for the first 20 steps, and unless the three newest
// windows of each reporting rank agree.
std::optional<v1::Finding> DataStarved(const Evidence& evidence, const v1::Ledger&) {
  const double share = SteadyShare(evidence, StepTime::kData);
  if (share < kStarvedShare) return std::nullopt;
  const AttemptHistory& history = *evidence.Newest();
  const double wait = RecentMean(history, StepTime::kData);
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {absl::StrCat("the devices wait for data for ", Percent(share), " of each step (",
                    ShortTime(wait), ")"),
       "the data loader does not keep up",
       "more loader workers (DataLoader(num_workers=N)), a larger prefetch_factor, or data nearer "
       "to the node"});
  AddNumber(finding, "data wait share", share * 100, "%");
  AddNumber(finding, "data wait", wait, "s");
  SetWaste(finding, PartDeviceSeconds(evidence, StepTime::kData));
  return finding;
}

// Communication takes 40 % of each step or more.
// Silent: with one rank; in favor of "slow-rank", whose cost shows as the others' communication;
// otherwise in the same cases as "data-starved".
std::optional<v1::Finding> CommunicationBound(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  if (attempt == nullptr || attempt->world_size() < 2) return std::nullopt;
  const double share = SteadyShare(evidence, StepTime::kCommunication);
  if (share < kCommunicationShare) return std::nullopt;
  const double each = RecentMean(*evidence.Newest(), StepTime::kCommunication);
  v1::Finding finding =
      MakeFinding(v1::FINDING_SEVERITY_WARNING,
                  {absl::StrCat("communication takes ", Percent(share), " of each step (",
                                ShortTime(each), ")"),
                   attempt->parts_size() > 1 ? "the network between the nodes is the limit"
                                             : "the steps are too short for this many ranks",
                   "a larger batch per rank, gradient accumulation, or fewer ranks"});
  AddNumber(finding, "communication share", share * 100, "%");
  AddNumber(finding, "communication", each, "s");
  AddNumber(finding, "world size", attempt->world_size());
  SetWaste(finding, PartDeviceSeconds(evidence, StepTime::kCommunication));
  return finding;
}

// One rank's own work (all of a step but communication) takes 25 % longer than the median of the
// others, so all of them wait for it at every step.
// Silent: unless at least two ranks, and half of the world, report step times; at the start, like
// "data-starved"; unless it was the same rank in the three newest windows.
std::optional<v1::Finding> SlowRank(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  const AttemptHistory* history = evidence.Newest();
  if (attempt == nullptr || history == nullptr) return std::nullopt;
  if (history->ranks().size() < 2 || history->ranks().size() * 2 < attempt->world_size()) {
    return std::nullopt;
  }
  for (const auto& [rank, times] : history->ranks()) {
    if (!IsWarm(evidence, times)) return std::nullopt;
  }
  std::optional<Slowest> found = FindSlow(*history, Sign::kOwnTime);
  const bool is_hidden = !found.has_value();
  if (is_hidden) found = FindSlow(*history, Sign::kDataWait);
  if (!found.has_value()) return std::nullopt;
  const Slowest& slowest = *found;
  const RankTimes& times = history->ranks().at(slowest.rank);
  const StepSplit& mean = times.newest.back().mean;
  const bool by_data = is_hidden || mean[StepTime::kData] > mean[StepTime::kCompute];
  const double lost = slowest.own - slowest.median;
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {absl::StrCat(
           RankOnNode(*attempt, slowest.rank), " is slow: ", ShortTime(slowest.own),
           is_hidden ? " of each step it waits for data, the others " : " a step, the others ",
           ShortTime(slowest.median)),
       by_data ? "it waits for its data longer than the others"
               : "its device or its node is slower, shared or throttled",
       absl::StrCat("jobctl nodes show ", PartOf(*attempt, slowest.rank) == nullptr
                                              ? "NODE"
                                              : PartOf(*attempt, slowest.rank)->node())});
  AddNumber(finding, is_hidden ? "data wait" : "own time a step", slowest.own, "s");
  AddNumber(finding, "median of the others", slowest.median, "s");
  finding.add_ranks(slowest.rank);
  if (const v1::NodePart* part = PartOf(*attempt, slowest.rank)) finding.set_node(part->node());
  SetWaste(finding,
           lost * static_cast<double>(times.steps) * static_cast<double>(DevicesOf(*attempt)));
  return finding;
}

// No step, and no other metric, for as long as ten steps took.
// Silent: below the floor, and below three times the longest pause so far; before the third step;
// when all steps are done; ten times as long while all ranks compute (an evaluation looks alike).
std::optional<v1::Finding> NoProgress(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  const AttemptHistory* history = evidence.Newest();
  if (attempt == nullptr || history == nullptr) return std::nullopt;
  const int64_t total = evidence.history.steps_total();
  const int64_t step = std::max(history->last_step(), evidence.history.progress_step());
  if (total > 0 && step >= total) return std::nullopt;
  if (history->marks().size() < kStepsBeforeQuiet) return std::nullopt;
  const int64_t heard_ago = evidence.now.mono_ms - evidence.history.heard_mono_ms();
  const int64_t quiet = std::min(evidence.QuietMs(), heard_ago);
  int64_t limit = std::max({static_cast<int64_t>(history->RecentStepMs() * kQuietSteps),
                            evidence.history.longest_pause_ms() * kQuietPauses, evidence.floor_ms});
  if (AllCompute(evidence)) limit *= kBusyFactor;
  if (quiet <= limit) return std::nullopt;
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_ERROR,
      {absl::StrCat("no step for ", ShortTime(static_cast<double>(quiet) / 1e3), " since step ",
                    step, "; a step took ", ShortTime(history->RecentStepMs() / 1e3)),
       attempt->world_size() > 1
           ? "the ranks wait in a collective that not all have entered, or for data"
           : "it waits for data, a lock or a file",
       absl::StrCat("jobctl stack ", evidence.job.name())});
  AddNumber(finding, "quiet for", static_cast<double>(quiet) / 1e3, "s");
  AddNumber(finding, "step time", history->RecentStepMs() / 1e3, "s");
  AddNumber(finding, "longest pause before",
            static_cast<double>(evidence.history.longest_pause_ms()) / 1e3, "s");
  AddNumber(finding, "step", static_cast<double>(step));
  SetWaste(finding, static_cast<double>(quiet) / 1e3 * static_cast<double>(DevicesOf(*attempt)));
  return finding;
}

}  // namespace muster::coordinator
