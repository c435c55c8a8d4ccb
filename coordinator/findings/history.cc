#include "coordinator/findings/history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "common/loss_name.h"

namespace muster::coordinator {
namespace {

// Longer step times are ignored: one absurd value would spoil every sum.
constexpr double kStepSecondsMax = 7 * 24 * 3600;

// The "time/…" metrics of one step. Compute is one number, or three phases, or both; with both, the
// number is the time outside the phases.
struct TimePoints {
  int64_t step = -1;
  std::optional<double> total, compute, phases, data, communication, checkpoint;

  bool Set(std::string_view name, double seconds) {
    if (name == "step") return total = seconds, true;
    if (name == "data_wait") return data = seconds, true;
    if (name == "compute") return compute = seconds, true;
    if (name == "communication") return communication = seconds, true;
    if (name == "checkpoint") return checkpoint = seconds, true;
    if (name == "forward" || name == "backward" || name == "optimizer") {
      return phases = phases.value_or(0) + seconds, true;
    }
    return false;
  }

  StepSplit Split() const {
    StepSplit split;
    split[StepTime::kData] = data.value_or(0);
    split[StepTime::kCompute] = phases.value_or(0) + compute.value_or(0);
    split[StepTime::kCommunication] = communication.value_or(0);
    split[StepTime::kCheckpoint] = checkpoint.value_or(0);
    double sum = 0;
    for (const double part : split.parts) sum += part;
    split.total = std::max(total.value_or(0), sum);
    return split;
  }
};

constexpr std::string_view kTimePrefix = "time/";

void TakeStepTimes(const v1::MetricBatch& batch, AttemptHistory& attempt) {
  TimePoints open;
  const auto close = [&] {
    if (open.total.has_value()) attempt.TakeTimes(batch.rank(), open.step, open.Split());
    open = {};
  };
  for (const v1::MetricPoint& point : batch.points()) {
    const std::string_view name = point.name();
    if (!name.starts_with(kTimePrefix)) continue;
    if (!std::isfinite(point.value()) || point.value() < 0) continue;
    if (point.value() > kStepSecondsMax) continue;
    if (point.step() != open.step) close();
    open.step = point.step();
    open.Set(name.substr(kTimePrefix.size()), point.value());
  }
  close();
}

}  // namespace

void StepSplit::Add(const StepSplit& more, double times) {
  for (size_t i = 0; i < kStepTimes; ++i) parts[i] += more.parts[i] * times;
  total += more.total * times;
}

void AttemptHistory::TakeStep(int64_t step, int64_t time_ms) {
  if (step <= last_step() || step < 0) return;
  time_ms = std::max(time_ms, last_time_ms());
  recent_.push_back({time_ms, step});
  if (recent_.size() > kRecentMarks) recent_.pop_front();
  // A mark too close to its predecessor replaces it, but the first stays.
  if (marks_.size() > 1 && time_ms - marks_[marks_.size() - 2].time_ms < spacing_ms_) {
    marks_.back() = {time_ms, step};
  } else {
    marks_.push_back({time_ms, step});
  }
  if (marks_.size() > kMarksMax) Thin();
}

void AttemptHistory::Thin() {
  spacing_ms_ = std::max<int64_t>(
      1, (marks_.back().time_ms - marks_.front().time_ms) / static_cast<int64_t>(kMarksMax / 2));
  std::vector<StepMark> kept;
  for (size_t i = 0; i < marks_.size(); i += 2) kept.push_back(marks_[i]);
  if (kept.back().step != marks_.back().step) kept.push_back(marks_.back());
  marks_ = std::move(kept);
}

void AttemptHistory::TakeTimes(uint32_t rank, int64_t step, const StepSplit& mean) {
  if (ranks_.size() >= kRanksMax && !ranks_.contains(rank)) return;
  RankTimes& times = ranks_[rank];
  const int64_t before =
      times.newest.empty() ? std::max<int64_t>(0, first_step() - 1) : times.newest.back().step;
  if (times.newest.empty()) times.first_step = before;
  // A window that ends at a step already counted adds nothing.
  const int64_t steps = step - before;
  if (steps <= 0) return;
  times.sum.Add(mean, static_cast<double>(steps));
  times.steps += steps;
  times.newest.push_back({step, mean});
  if (times.newest.size() > RankTimes::kWindowsKept) times.newest.pop_front();
}

int64_t AttemptHistory::TimeOf(int64_t step) const {
  const auto behind =
      std::lower_bound(marks_.begin(), marks_.end(), step,
                       [](const StepMark& mark, int64_t wanted) { return mark.step < wanted; });
  if (behind == marks_.end()) return last_time_ms();
  if (behind == marks_.begin() || behind->step == step) return behind->time_ms;
  const StepMark& before = *std::prev(behind);
  return before.time_ms +
         (behind->time_ms - before.time_ms) * (step - before.step) / (behind->step - before.step);
}

StepSplit AttemptHistory::Times() const {
  StepSplit sum;
  for (const auto& [rank, times] : ranks_) sum.Add(times.sum);
  return sum;
}

double AttemptHistory::RecentStepMs() const {
  std::vector<double> each;
  for (size_t i = 1; i < recent_.size(); ++i) {
    const auto steps = static_cast<double>(recent_[i].step - recent_[i - 1].step);
    each.push_back(static_cast<double>(recent_[i].time_ms - recent_[i - 1].time_ms) / steps);
  }
  if (each.empty()) return 0;
  const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
  std::nth_element(each.begin(), middle, each.end());
  return *middle;
}

void LossHistory::Take(int64_t step, double value) {
  last_step_ = step;
  last_ = value;
  if (!std::isfinite(value)) {
    if (bad_in_a_row_++ == 0) first_bad_step_ = step;
    return;
  }
  bad_in_a_row_ = 0;
  open_sum_ += value;
  if (++open_count_ < bin_size_) return;
  bins_.push_back(open_sum_ / static_cast<double>(open_count_));
  open_sum_ = 0;
  open_count_ = 0;
  if (bins_.size() < kBinsMax) return;
  for (size_t i = 0; i < kBinsMax / 2; ++i) bins_[i] = (bins_[2 * i] + bins_[2 * i + 1]) / 2;
  bins_.resize(kBinsMax / 2);
  bin_size_ *= 2;
}

void JobHistory::BeginAttempt(uint32_t attempt) {
  newest_ = attempt;
  loss_ = {};
  loss_name_.clear();
  progress_step_ = -1;
  advanced_mono_ms_ = 0;
  longest_pause_ms_ = 0;
}

void JobHistory::Advance(uint32_t attempt, int64_t step, int64_t time_ms, int64_t mono_ms) {
  AttemptHistory& history = attempts_[attempt];
  const int64_t before = history.last_step();
  const int64_t before_ms = history.last_time_ms();
  history.TakeStep(step, time_ms);
  if (attempt != newest_ || history.last_step() == before) return;
  if (before >= 0) {
    longest_pause_ms_ = std::max(longest_pause_ms_, history.last_time_ms() - before_ms);
  }
  advanced_mono_ms_ = mono_ms;
}

void JobHistory::TakeLoss(const v1::MetricBatch& batch) {
  for (const v1::MetricPoint& point : batch.points()) {
    const bool is_same = point.name() == loss_name_;
    const bool is_better =
        is_same ? batch.rank() < loss_rank_
                : common::IsLossName(point.name()) &&
                      (loss_name_.empty() || common::IsRatherTheLoss(point.name(), loss_name_));
    if (is_better) {
      loss_ = {};
      loss_name_ = point.name();
      loss_rank_ = batch.rank();
    }
    if (is_better || (is_same && batch.rank() == loss_rank_))
      loss_.Take(point.step(), point.value());
  }
}

void JobHistory::Take(const v1::MetricBatch& batch, int64_t mono_ms) {
  const uint32_t attempt = batch.attempt();
  if (attempts_.size() >= kAttemptsKept && !attempts_.contains(attempt)) {
    if (attempt < attempts_.begin()->first) return;
    reporting_.erase(attempts_.begin()->first);
    attempts_.erase(attempts_.begin());
  }
  if (attempts_.empty() || attempt > newest_) BeginAttempt(attempt);
  AttemptHistory& history = attempts_[attempt];
  heard_mono_ms_ = mono_ms;
  auto& ranks = reporting_[attempt];
  if (ranks.size() < AttemptHistory::kRanksMax) ranks[batch.rank()] = true;
  if (batch.progress_total() > 0) steps_total_ = static_cast<int64_t>(batch.progress_total());
  if (attempt == newest_ && batch.progress_step() > std::max<int64_t>(progress_step_, 0)) {
    progress_step_ = batch.progress_step();
    advanced_mono_ms_ = mono_ms;
  }
  for (const v1::MetricPoint& point : batch.points()) {
    Advance(attempt, point.step(), point.time_ms(), mono_ms);
  }
  TakeStepTimes(batch, history);
  if (attempt == newest_) TakeLoss(batch);
}

const AttemptHistory* JobHistory::Find(uint32_t attempt) const {
  const auto found = attempts_.find(attempt);
  return found == attempts_.end() ? nullptr : &found->second;
}

bool JobHistory::Reports(uint32_t attempt, uint32_t rank) const {
  const auto found = reporting_.find(attempt);
  return found != reporting_.end() && found->second.contains(rank);
}

}  // namespace muster::coordinator
