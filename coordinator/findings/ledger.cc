#include "coordinator/findings/ledger.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/text/text.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {
namespace {

constexpr size_t kBlamesMax = 5;
constexpr int64_t kUsPerMs = 1'000;

// Accounts for the job's time from its submission on, stretch by stretch, each moment once.
class Book {
 public:
  Book(int64_t begin_ms, v1::Ledger& ledger) : at_ms_(begin_ms), ledger_(ledger) {}

  // The device time between the last stretch and `until_ms`.
  int64_t Take(int64_t until_ms, int64_t devices) {
    const int64_t span_ms = std::max<int64_t>(0, until_ms - at_ms_);
    at_ms_ += span_ms;
    const int64_t us = span_ms * kUsPerMs * devices;
    ledger_.set_total_us(ledger_.total_us() + us);
    ledger_.set_wall_us(ledger_.wall_us() + span_ms * kUsPerMs);
    return us;
  }
  int64_t at_ms() const { return at_ms_; }

 private:
  int64_t at_ms_;
  v1::Ledger& ledger_;
};

enum class Where {
  kQueue,
  kStart,
  kData,
  kCompute,
  kCommunication,
  kCheckpoint,
  kRestart,
  kRepeated,
  kIdle,
  kUnknown
};
constexpr size_t kWheres = static_cast<size_t>(Where::kUnknown) + 1;

// The step after which an attempt began: its checkpoint's, or the one that its metrics show
// (programs may keep their own checkpoints).
std::optional<int64_t> BeganBehind(const v1::Attempt& attempt, const AttemptHistory* history) {
  if (attempt.resume_step() >= 0) return attempt.resume_step();
  if (history == nullptr || history->marks().empty()) return std::nullopt;
  return std::max<int64_t>(0, history->first_step() - 1);
}

// The moments of one attempt, in order, clamped to the times in the record.
struct Moments {
  int64_t running_ms = 0;     // all ranks run; 0: never
  int64_t first_step_ms = 0;  // the first step begins
  int64_t kept_ms = 0;        // the last step is done that no later attempt repeats
  int64_t last_step_ms = 0;
  int64_t stopping_ms = 0;
  int64_t ended_ms = 0;
};

// `kept_step`: the last step that no later attempt repeats.
Moments MomentsOf(const v1::Attempt& attempt, const AttemptHistory* history, int64_t kept_step,
                  int64_t end_ms) {
  Moments at;
  at.ended_ms = attempt.ended_ms() > 0 ? attempt.ended_ms() : end_ms;
  at.stopping_ms =
      attempt.stopping_ms() > 0 ? std::min(attempt.stopping_ms(), at.ended_ms) : at.ended_ms;
  at.running_ms = attempt.running_ms();
  if (at.running_ms == 0) return at;
  const auto within = [&](int64_t ms) {
    return std::clamp(ms, at.running_ms, std::max(at.running_ms, at.stopping_ms));
  };
  if (history == nullptr || history->marks().empty()) {
    at.first_step_ms = at.kept_ms = at.last_step_ms = at.running_ms;
    return at;
  }
  const StepMark& first = history->marks().front();
  const int64_t began = BeganBehind(attempt, history).value_or(0);
  const auto first_took =
      static_cast<int64_t>(history->RecentStepMs() * static_cast<double>(first.step - began));
  at.first_step_ms = within(first.time_ms - std::max<int64_t>(0, first_took));
  at.last_step_ms = std::max(at.first_step_ms, within(history->last_time_ms()));
  at.kept_ms = std::clamp(within(history->TimeOf(kept_step)), at.first_step_ms, at.last_step_ms);
  if (kept_step <= began) at.kept_ms = at.first_step_ms;
  return at;
}

// The share of the attempt's device time in which devices did nothing while others worked.
double IdleShare(const v1::Attempt& attempt, const SampleHistory& samples) {
  if (samples.empty() || samples.attempt() != attempt.number()) return 0;
  int64_t idle = 0;
  int64_t known = 0;
  int64_t busy = 0;
  const auto count = [&](int64_t all, int64_t working) {
    // A device that ever worked may be waiting for others; only a device that never did is idle.
    const bool is_idle = all > 0 && working == 0;
    ++known;
    idle += is_idle;
    busy += !is_idle;
  };
  for (const auto& [key, device] : samples.devices()) {
    if (!device.newest.empty() && device.newest.back().second.has_utilization()) {
      count(device.samples, device.busy);
    }
  }
  if (known == 0) {
    for (const auto& [number, rank] : samples.ranks()) count(rank.samples, rank.busy);
  }
  return known == 0 || busy == 0 ? 0 : static_cast<double>(idle) / static_cast<double>(known);
}

// The rank or node to which an attempt's loss is charged; empty: none (it was cancelled, or
// succeeded).
std::string WhoFailed(const v1::Attempt& attempt) {
  switch (attempt.cause()) {
    case v1::STOP_CAUSE_RANK_FAILED:
      if (!attempt.has_culprit()) return "";
      return absl::StrCat("rank ", attempt.culprit().rank(), " on ", attempt.culprit().node());
    case v1::STOP_CAUSE_NODE_LOST:
    case v1::STOP_CAUSE_SUPERVISOR_LOST:
    case v1::STOP_CAUSE_START_TIMEOUT:
    case v1::STOP_CAUSE_LAUNCH_INTERRUPTED:
      for (const v1::NodePart& part : attempt.parts()) {
        if (!part.failure().empty()) return part.node();
      }
      return "";
    default:
      return "";
  }
}

class LedgerMaker {
 public:
  explicit LedgerMaker(const Evidence& evidence)
      : evidence_(evidence),
        job_(evidence.job),
        end_ms_(std::max(job_.submitted_ms(),
                         job_.finished_ms() > 0 ? job_.finished_ms() : evidence.now.wall_ms)),
        book_(job_.submitted_ms(), ledger_) {}

  v1::Ledger Make() {
    ledger_.set_devices(static_cast<uint32_t>(DevicesOf(job_)));
    FindKeptSteps();
    for (int i = 0; i < job_.attempts_size(); ++i) Spend(i);
    SpendRest();
    WriteColumns();
    if (has_times_ && ledger_.total_us() > 0) {
      ledger_.set_goodput(static_cast<double>(ledger_.compute_us()) /
                          static_cast<double>(ledger_.total_us()));
    }
    AddBlames();
    return std::move(ledger_);
  }

 private:
  const AttemptHistory* HistoryOf(int index) const {
    return evidence_.history.Find(job_.attempts(index).number());
  }

  // Newest first: a later attempt may have begun at an earlier step than the one before it.
  void FindKeptSteps() {
    kept_.assign(static_cast<size_t>(job_.attempts_size()), INT64_MAX);
    int64_t least = INT64_MAX;
    for (int i = job_.attempts_size() - 1; i >= 0; --i) {
      kept_[static_cast<size_t>(i)] = least;
      const std::optional<int64_t> began = BeganBehind(job_.attempts(i), HistoryOf(i));
      if (began.has_value()) least = std::min(least, *began);
    }
  }

  void Spend(int i) {
    const v1::Attempt& attempt = job_.attempts(i);
    const int64_t devices = DevicesOf(attempt);
    const int64_t waited = book_.Take(std::min(attempt.started_ms(), end_ms_), devices);
    int64_t lost = 0;
    if (i > 0) {
      Add(Where::kRestart, waited);
      Blame(i - 1, waited);
    } else if (job_.dropped_attempts() > 0) {
      Add(Where::kUnknown, waited);  // the record no longer has the first attempts
    } else {
      Add(Where::kQueue, waited);
    }
    const AttemptHistory* history = HistoryOf(i);
    const Moments at = MomentsOf(attempt, history, kept_[static_cast<size_t>(i)], end_ms_);
    const bool failed = !WhoFailed(attempt).empty();
    if (at.running_ms == 0) {
      const int64_t us = book_.Take(at.ended_ms, devices);
      if (failed) {
        Add(Where::kRestart, us);
        lost = us;
      } else {
        Add(Where::kStart, us);
      }
      Blame(i, lost);
      return;
    }
    SpendRunning(attempt, history, at, kept_[static_cast<size_t>(i)] != INT64_MAX, lost);
    const int64_t stopping = book_.Take(at.ended_ms, devices);
    if (failed) {
      Add(Where::kRestart, stopping);
      lost += stopping;
    } else {
      Add(Where::kUnknown, stopping);
    }
    Blame(i, lost);
  }

  // Accounts for the time from the assignment of its devices until it begins to stop.
  void SpendRunning(const v1::Attempt& attempt, const AttemptHistory* history, const Moments& at,
                    bool is_repeated, int64_t& lost) {
    const int64_t devices = DevicesOf(attempt);
    Add(Where::kStart, book_.Take(at.first_step_ms, devices));
    const int64_t before_ms = book_.at_ms();
    const int64_t steps = book_.Take(at.kept_ms, devices);
    const auto idle =
        static_cast<int64_t>(static_cast<double>(steps) * IdleShare(attempt, evidence_.samples));
    Add(Where::kIdle, idle);
    if (history == nullptr) {
      Add(Where::kUnknown, steps - idle);
    } else {
      has_times_ |= history->Times().total > 0;
      SpendSteps(steps - idle, book_.at_ms() - before_ms, BeganBehind(attempt, history).value_or(0),
                 *history);
    }
    // If a later attempt repeated steps, all time after the last step that counts was lost.
    const int64_t redone = book_.Take(at.last_step_ms, devices);
    const int64_t behind = book_.Take(at.stopping_ms, devices);
    if (is_repeated && redone > 0) {
      Add(Where::kRepeated, redone + behind);
      lost += redone + behind;
    } else {
      Add(Where::kUnknown, redone + behind);
    }
  }

  // Splits the time of the steps that count in the proportions that the ranks reported.
  void SpendSteps(int64_t us, int64_t span_ms, int64_t began, const AttemptHistory& history) {
    const StepSplit sum = history.Times();
    if (sum.total <= 0 || span_ms <= 0 || history.ranks().empty()) {
      Add(Where::kUnknown, us);
      return;
    }
    // Seconds that an average rank reported. Steps before its first window count like the others.
    double reported = 0;
    for (const auto& [rank, times] : history.ranks()) {
      const int64_t last = times.newest.empty() ? 0 : times.newest.back().step;
      const double steps = static_cast<double>(std::max(times.steps, last - began));
      if (times.steps > 0) reported += times.sum.total / static_cast<double>(times.steps) * steps;
    }
    reported /= static_cast<double>(history.ranks().size());
    // All steps of the attempt, not only those that count.
    const double whole_s =
        static_cast<double>(history.last_time_ms() - history.marks().front().time_ms) / 1000.0;
    const double covered =
        std::min(1.0, reported / std::max({whole_s, static_cast<double>(span_ms) / 1000.0, 1e-9}));
    int64_t left = us;
    const auto share = [&](StepTime part) {
      const double exact = static_cast<double>(us) * covered * sum[part] / sum.total;
      const int64_t some = std::clamp<int64_t>(static_cast<int64_t>(exact), 0, left);
      left -= some;
      return some;
    };
    Add(Where::kData, share(StepTime::kData));
    Add(Where::kCompute, share(StepTime::kCompute));
    Add(Where::kCommunication, share(StepTime::kCommunication));
    Add(Where::kCheckpoint, share(StepTime::kCheckpoint));
    Add(Where::kUnknown, left);
  }

  // Accounts for the time after the last attempt, or for all of it if there was none.
  void SpendRest() {
    const int64_t us = book_.Take(end_ms_, DevicesOf(job_));
    if (job_.attempts().empty()) {
      Add(Where::kQueue, us);
    } else if (IsFinal(job_.state())) {
      Add(Where::kUnknown, us);
    } else {
      Add(Where::kRestart, us);
      Blame(job_.attempts_size() - 1, us);
    }
  }

  void Add(Where where, int64_t us) { us_[static_cast<size_t>(where)] += us; }
  void WriteColumns() {
    const auto us = [this](Where where) { return us_[static_cast<size_t>(where)]; };
    ledger_.set_queue_us(us(Where::kQueue));
    ledger_.set_start_us(us(Where::kStart));
    ledger_.set_data_us(us(Where::kData));
    ledger_.set_compute_us(us(Where::kCompute));
    ledger_.set_communication_us(us(Where::kCommunication));
    ledger_.set_checkpoint_us(us(Where::kCheckpoint));
    ledger_.set_restart_us(us(Where::kRestart));
    ledger_.set_repeated_us(us(Where::kRepeated));
    ledger_.set_idle_us(us(Where::kIdle));
    ledger_.set_unknown_us(us(Where::kUnknown));
  }

  void Blame(int i, int64_t us) {
    const std::string who = WhoFailed(job_.attempts(i));
    if (who.empty() || us <= 0) return;
    v1::LedgerBlame& blame = blames_[who];
    blame.set_us(blame.us() + us);
    failures_[who].insert(i);
  }

  void AddBlames() {
    std::vector<v1::LedgerBlame> all;
    for (auto& [who, blame] : blames_) {
      const size_t times = failures_[who].size();
      blame.set_who(who);
      blame.set_times(static_cast<uint32_t>(times));
      blame.set_what(absl::StrCat(common::Counted(times, "failure"), ": restarts, repeated steps"));
      all.push_back(std::move(blame));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.us() > b.us(); });
    if (all.size() > kBlamesMax) all.resize(kBlamesMax);
    for (v1::LedgerBlame& blame : all) *ledger_.add_blames() = std::move(blame);
    for (auto attempt = job_.attempts().rbegin(); attempt != job_.attempts().rend(); ++attempt) {
      if (WhoFailed(*attempt).empty()) continue;
      ledger_.set_newest_cause(attempt->reason());
      break;
    }
  }

  const Evidence& evidence_;
  const v1::JobRecord& job_;
  const int64_t end_ms_;
  v1::Ledger ledger_;
  Book book_;
  std::array<int64_t, kWheres> us_{};  // by Where
  std::vector<int64_t> kept_;          // by attempt: the last step that no later one repeats
  bool has_times_ = false;
  std::map<std::string, v1::LedgerBlame> blames_;
  std::map<std::string, std::set<int>> failures_;
};

}  // namespace

v1::Ledger MakeLedger(const Evidence& evidence) { return LedgerMaker(evidence).Make(); }

}  // namespace muster::coordinator
