#include "coordinator/findings/eta.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

// The first steps are slower: caches, compilation, the first batches.
constexpr int64_t kStepsBeforeEta = 5;

}  // namespace

std::optional<int64_t> EtaMs(const Evidence& evidence) {
  const v1::Attempt* attempt = evidence.Running();
  const int64_t total = evidence.history.steps_total();
  const AttemptHistory* newest = evidence.Newest();
  if (attempt == nullptr || newest == nullptr || total <= 0) return std::nullopt;
  const int64_t progress = evidence.history.progress_step();
  const int64_t step = progress >= 0 ? progress : newest->last_step();
  const int64_t begin = std::max<int64_t>(0, attempt->resume_step());
  if (step - begin < kStepsBeforeEta || step > total) return std::nullopt;
  double step_ms = newest->RecentStepMs();
  // Metrics may count other steps than the progress does (batches, updates): then only the mean
  // since the start is known.
  const bool alike =
      newest->last_step() >= step * 9 / 10 && newest->last_step() <= step * 11 / 10 + 1;
  if (step_ms <= 0 || !alike) {
    step_ms = static_cast<double>(evidence.RanMs()) / static_cast<double>(step - begin);
  }
  const double left_ms = step_ms * static_cast<double>(total - step);
  constexpr double kYearMs = 365.0 * 24 * 3'600'000;
  if (left_ms > kYearMs) return std::nullopt;
  // Part of the current step has already passed.
  const auto passed = std::min(left_ms, static_cast<double>(evidence.QuietMs()));
  return static_cast<int64_t>(left_ms - std::min(passed, step_ms));
}

}  // namespace muster::coordinator
