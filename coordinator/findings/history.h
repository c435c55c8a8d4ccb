// A job's metrics, summarized for the rules: steps over time, the parts of a step, the loss. Taken
// batch by batch, in bounded memory however long the job runs. Pure; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// The parts of a step that trainers report as "time/…", in seconds. The rest of "time/step" is
// outside all parts.
enum class StepTime { kData, kCompute, kCommunication, kCheckpoint };
inline constexpr size_t kStepTimes = 4;

struct StepSplit {
  std::array<double, kStepTimes> parts{};  // seconds
  double total = 0;                        // seconds, at least the sum of the parts

  double operator[](StepTime part) const { return parts[static_cast<size_t>(part)]; }
  double& operator[](StepTime part) { return parts[static_cast<size_t>(part)]; }
  void Add(const StepSplit& more, double times = 1);
};

// One window of a rank's step times.
struct StepWindow {
  int64_t step = -1;
  StepSplit mean;  // of one step
};

struct RankTimes {
  static constexpr size_t kWindowsKept = 3;
  std::deque<StepWindow> newest;
  StepSplit sum;           // over all steps so far
  int64_t steps = 0;       // that `sum` covers
  int64_t first_step = 0;  // the first of them
};

// The trainer's clock when it had done a step.
struct StepMark {
  int64_t time_ms = 0;
  int64_t step = 0;
};

// Of one attempt.
class AttemptHistory {
 public:
  static constexpr size_t kMarksMax = 512;  // beyond, they are thinned
  static constexpr size_t kRecentMarks = 64;
  static constexpr size_t kRanksMax = 4'096;

  void TakeStep(int64_t step, int64_t time_ms);
  void TakeTimes(uint32_t rank, int64_t step, const StepSplit& mean);

  const std::vector<StepMark>& marks() const { return marks_; }
  const std::map<uint32_t, RankTimes>& ranks() const { return ranks_; }
  int64_t first_step() const { return marks_.empty() ? -1 : marks_.front().step; }
  int64_t last_step() const { return recent_.empty() ? -1 : recent_.back().step; }
  int64_t last_time_ms() const { return recent_.empty() ? 0 : recent_.back().time_ms; }
  // When `step` was done, interpolated between the marks and clamped to the first and the last.
  int64_t TimeOf(int64_t step) const;
  // Over all ranks and steps. total 0: no rank reported any.
  StepSplit Times() const;
  // The median over the newest marks, in milliseconds; 0: fewer than two marks.
  double RecentStepMs() const;

 private:
  void Thin();

  std::vector<StepMark> marks_;
  std::deque<StepMark> recent_;
  int64_t spacing_ms_ = 0;
  std::map<uint32_t, RankTimes> ranks_;
};

// The training loss in a few numbers: means over stretches of equal length, and the newest values.
class LossHistory {
 public:
  static constexpr size_t kBinsMax = 64;  // beyond, each covers twice as many values

  void Take(int64_t step, double value);

  // Values in a row that are not finite, up to the newest.
  int64_t bad_in_a_row() const { return bad_in_a_row_; }
  int64_t first_bad_step() const { return first_bad_step_; }  // of that row
  int64_t last_step() const { return last_step_; }
  double last() const { return last_; }
  // Oldest first, complete ones only.
  const std::vector<double>& bins() const { return bins_; }

 private:
  int64_t bad_in_a_row_ = 0;
  int64_t first_bad_step_ = -1;
  int64_t last_step_ = -1;
  double last_ = 0;
  std::vector<double> bins_;
  double open_sum_ = 0;
  int64_t open_count_ = 0;
  int64_t bin_size_ = 1;
};

// Of one job.
class JobHistory {
 public:
  static constexpr size_t kAttemptsKept = 128;

  // `mono_ms`: when the coordinator saw it, on its monotonic clock.
  void Take(const v1::MetricBatch& batch, int64_t mono_ms);

  const AttemptHistory* Find(uint32_t attempt) const;
  const std::map<uint32_t, AttemptHistory>& attempts() const { return attempts_; }
  // Of the newest attempt that reported any.
  const LossHistory& loss() const { return loss_; }
  const std::string& loss_name() const { return loss_name_; }
  bool Reports(uint32_t attempt, uint32_t rank) const;
  // The progress that the trainer itself reports, which has no time; -1 and 0: it reports none.
  int64_t progress_step() const { return progress_step_; }
  int64_t steps_total() const { return steps_total_; }
  // When the newest attempt last gained a step, and when metrics last arrived; 0: never.
  int64_t advanced_mono_ms() const { return advanced_mono_ms_; }
  int64_t heard_mono_ms() const { return heard_mono_ms_; }
  // The longest time in which the newest attempt gained no step.
  int64_t longest_pause_ms() const { return longest_pause_ms_; }

 private:
  void BeginAttempt(uint32_t attempt);
  void Advance(uint32_t attempt, int64_t step, int64_t time_ms, int64_t mono_ms);
  void TakeLoss(const v1::MetricBatch& batch);

  std::map<uint32_t, AttemptHistory> attempts_;
  std::map<uint32_t, std::map<uint32_t, bool>> reporting_;  // by attempt and rank
  uint32_t newest_ = 0;
  LossHistory loss_;
  std::string loss_name_;
  uint32_t loss_rank_ = 0;
  int64_t progress_step_ = -1;
  int64_t steps_total_ = 0;
  int64_t advanced_mono_ms_ = 0;
  int64_t heard_mono_ms_ = 0;
  int64_t longest_pause_ms_ = 0;
};

}  // namespace muster::coordinator
