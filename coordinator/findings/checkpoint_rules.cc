// Rules that compare how often a job saves with how often it fails.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/text/text.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kFailuresLeast = 2;     // one may be bad luck
constexpr double kLostShareLeast = 0.05;  // of the job's device time
// Young's and Daly's optimum is flat: an interval of up to three times its length costs little
// more.
constexpr double kIntervalSlack = 3;
// Assumed for a job that does not report the cost of a checkpoint: a sixth of the floor, ten
// seconds by default.
constexpr int64_t kAssumedCostShare = 6;
constexpr double kSlowShare = 0.1;  // of the time in steps
constexpr int64_t kStepsBeforeSlow = 20;

struct Failures {
  int64_t count = 0;
  double ran_s = 0;  // all attempts
};

Failures CountFailures(const Evidence& evidence) {
  Failures failures;
  for (const v1::Attempt& attempt : evidence.job.attempts()) {
    switch (attempt.cause()) {
      case v1::STOP_CAUSE_RANK_FAILED:
      case v1::STOP_CAUSE_NODE_LOST:
      case v1::STOP_CAUSE_SUPERVISOR_LOST:
        ++failures.count;
        break;
      default:
        break;
    }
    if (attempt.running_ms() == 0) continue;
    const int64_t end_ms = attempt.ended_ms() > 0 ? attempt.ended_ms() : evidence.now.wall_ms;
    failures.ran_s +=
        static_cast<double>(std::max<int64_t>(0, end_ms - attempt.running_ms())) / 1e3;
  }
  return failures;
}

// Mean seconds between two checkpoints of one attempt; nullopt: no attempt has two.
std::optional<double> IntervalSeconds(const v1::JobRecord& job) {
  double sum = 0;
  int64_t count = 0;
  const v1::Checkpoint* before = nullptr;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.state() != v1::CHECKPOINT_STATE_COMMITTED) continue;
    if (before != nullptr && before->attempt() == checkpoint.attempt()) {
      sum += static_cast<double>(checkpoint.committed_ms() - before->committed_ms()) / 1e3;
      ++count;
    }
    before = &checkpoint;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

bool SavedAny(const v1::JobRecord& job) {
  return std::any_of(job.checkpoints().begin(), job.checkpoints().end(), [](const auto& each) {
    return each.state() == v1::CHECKPOINT_STATE_COMMITTED;
  });
}

// What one checkpoint costs the ranks, from the time that they report for it.
std::optional<double> CostSeconds(const Evidence& evidence, double interval_s) {
  const AttemptHistory* history = evidence.Newest();
  if (history == nullptr || history->ranks().empty() || history->RecentStepMs() <= 0) {
    return std::nullopt;
  }
  const StepSplit sum = history->Times();
  if (sum[StepTime::kCheckpoint] <= 0 || sum.total <= 0) return std::nullopt;
  return sum[StepTime::kCheckpoint] / sum.total * interval_s;
}

}  // namespace

// Checkpoints too rare for how often the job fails: the interval is more than three times
// sqrt(2 × cost × mean time between failures), or there are none at all. Source: Young (1974),
// Daly (2006).
// Silent: below two failures; when less than a floor of the job's time, or less than 5 % of it, was
// repeated; for a job that reports no steps (nothing is known to be repeated).
std::optional<v1::Finding> CheckpointsTooRare(const Evidence& evidence, const v1::Ledger& ledger) {
  const Failures failures = CountFailures(evidence);
  if (failures.count < kFailuresLeast || ledger.total_us() == 0) return std::nullopt;
  const double lost_s = static_cast<double>(ledger.repeated_us()) / 1e6;
  const double floor_s = static_cast<double>(evidence.floor_ms) / 1e3;
  if (lost_s < floor_s * static_cast<double>(std::max(1u, ledger.devices())) ||
      lost_s < kLostShareLeast * static_cast<double>(ledger.total_us()) / 1e6) {
    return std::nullopt;
  }
  const double between_s = failures.ran_s / static_cast<double>(failures.count);
  const std::optional<double> interval = IntervalSeconds(evidence.job);
  const double cost =
      CostSeconds(evidence, interval.value_or(between_s)).value_or(floor_s / kAssumedCostShare);
  const double best = std::sqrt(2 * cost * between_s);
  if (!interval.has_value() && SavedAny(evidence.job)) return std::nullopt;
  if (interval.has_value() && *interval <= kIntervalSlack * best) return std::nullopt;
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {absl::StrCat("it failed ", common::Counted(static_cast<uint64_t>(failures.count), "time"),
                    interval.has_value()
                        ? absl::StrCat(" and saves every ", ShortTime(*interval), ": ")
                        : " and has no checkpoint: ",
                    ShortTime(lost_s), " of device time was repeated"),
       absl::StrCat("it fails every ", ShortTime(between_s), " on average"),
       absl::StrCat("save a checkpoint about every ", ShortTime(best))});
  AddNumber(finding, "failures", static_cast<double>(failures.count));
  AddNumber(finding, "mean time between failures", between_s, "s");
  AddNumber(finding, "cost of a checkpoint", cost, "s");
  if (interval.has_value()) AddNumber(finding, "interval", *interval, "s");
  AddNumber(finding, "best interval", best, "s");
  SetWaste(finding, lost_s);
  return finding;
}

// Saving checkpoints takes 10 % of the steps' time or more.
// Silent: for one floor after the start and for the first 20 steps; for ranks that report no
// "time/checkpoint" (checkpoints in the background cost the steps nothing).
std::optional<v1::Finding> CheckpointsTooSlow(const Evidence& evidence, const v1::Ledger&) {
  const AttemptHistory* history = evidence.Newest();
  if (evidence.Running() == nullptr || history == nullptr) return std::nullopt;
  if (evidence.RanMs() < evidence.floor_ms) return std::nullopt;
  if (history->last_step() - history->first_step() < kStepsBeforeSlow) return std::nullopt;
  const StepSplit sum = history->Times();
  const double share = sum.total > 0 ? sum[StepTime::kCheckpoint] / sum.total : 0;
  if (share < kSlowShare) return std::nullopt;
  const double each = sum[StepTime::kCheckpoint] / static_cast<double>(history->ranks().size());
  v1::Finding finding =
      MakeFinding(v1::FINDING_SEVERITY_WARNING,
                  {absl::StrCat("saving checkpoints takes ", Percent(share), " of the steps' time"),
                   "they are saved often, or to a slow disk, while the devices wait",
                   "asynchronous checkpoints, a longer interval, or a local disk"});
  AddNumber(finding, "share", share * 100, "%");
  AddNumber(finding, "time so far", each, "s");
  SetWaste(finding, each * static_cast<double>(DevicesOf(evidence.job)));
  return finding;
}

}  // namespace muster::coordinator
