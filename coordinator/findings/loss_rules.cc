// Rules about the training loss: that of the newest attempt, from the first rank that reports one.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/state/state.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

// One or two such values can come from a skipped step of mixed precision.
constexpr int64_t kBadInARow = 3;
// With fewer complete stretches there is no trend.
constexpr size_t kTrendBins = 16;
constexpr size_t kNewestBins = 4;
constexpr double kAboveBest = 2;     // times
constexpr double kAboveScatter = 8;  // times the usual difference between two stretches

double UsualDifference(const std::vector<double>& bins) {
  std::vector<double> steps;
  for (size_t i = 1; i < bins.size(); ++i) steps.push_back(std::abs(bins[i] - bins[i - 1]));
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

// Works for a running job and for one that has ended: counts to the last reported step.
double SecondsSinceStep(const Evidence& evidence, int64_t step) {
  const AttemptHistory* history = evidence.Newest();
  if (history == nullptr) return 0;
  return static_cast<double>(history->last_time_ms() - history->TimeOf(step)) / 1e3;
}

// Commands that go back to the newest checkpoint before the first bad value.
std::string WaysBack(const Evidence& evidence, int64_t first_bad) {
  int64_t good = -1;
  for (const v1::Checkpoint& checkpoint : evidence.job.checkpoints()) {
    if (checkpoint.state() != v1::CHECKPOINT_STATE_COMMITTED) continue;
    if (checkpoint.step() < first_bad) good = std::max(good, checkpoint.step());
  }
  const std::string& name = evidence.job.name();
  const bool is_over = IsFinal(evidence.job.state());
  return absl::StrCat(is_over ? "" : absl::StrCat("jobctl cancel ", name, "; "), "jobctl rerun ",
                      name, good >= 0 ? absl::StrCat(" --from ", good) : "",
                      " with a lower learning rate, clipping or other data");
}

}  // namespace

// The loss is NaN or infinite.
// Silent: below three such values in a row; once a finite value follows.
std::optional<v1::Finding> LossNotFinite(const Evidence& evidence, const v1::Ledger&) {
  const LossHistory& loss = evidence.history.loss();
  if (loss.bad_in_a_row() < kBadInARow || evidence.Newest() == nullptr) return std::nullopt;
  const std::string what = std::isnan(loss.last()) ? "NaN" : "infinite";
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_ERROR,
      {absl::StrCat(evidence.history.loss_name(), " has been ", what, " since step ",
                    loss.first_bad_step(), ", ", loss.bad_in_a_row(), " values in a row"),
       "the training diverged: learning rate, mixed precision without scaling, or bad data",
       WaysBack(evidence, loss.first_bad_step())});
  AddNumber(finding, "first bad step", static_cast<double>(loss.first_bad_step()));
  AddNumber(finding, "values in a row", static_cast<double>(loss.bad_in_a_row()));
  SetWaste(finding, SecondsSinceStep(evidence, loss.first_bad_step()) *
                        static_cast<double>(DevicesOf(evidence.job)));
  return finding;
}

// The loss left its trend: its four newest stretches are all above twice the best one, and above
// it by eight times the usual difference.
// Silent: below sixteen stretches; for losses that are not positive; where it is still below the
// first stretch (a warm start that settles).
std::optional<v1::Finding> LossDiverging(const Evidence& evidence, const v1::Ledger&) {
  const std::vector<double>& bins = evidence.history.loss().bins();
  if (evidence.Running() == nullptr || bins.size() < kTrendBins) return std::nullopt;
  const double best = *std::min_element(bins.begin(), bins.end());
  const double newest = *std::min_element(bins.end() - kNewestBins, bins.end());
  if (best <= 0 || newest <= bins.front()) return std::nullopt;
  if (newest < kAboveBest * best || newest < best + kAboveScatter * UsualDifference(bins)) {
    return std::nullopt;
  }
  v1::Finding finding =
      MakeFinding(v1::FINDING_SEVERITY_WARNING,
                  {absl::StrFormat("%s left its trend: %.4g now, %.4g at its best",
                                   evidence.history.loss_name(), newest, best),
                   "the training diverges: the learning rate is too high, or the data changed",
                   absl::StrCat("jobctl metrics ", evidence.job.name())});
  AddNumber(finding, "now", newest);
  AddNumber(finding, "best", best);
  AddNumber(finding, "usual difference", UsualDifference(bins));
  return finding;
}

}  // namespace muster::coordinator
