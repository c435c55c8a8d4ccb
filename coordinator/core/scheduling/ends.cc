#include "coordinator/core/scheduling/ends.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

constexpr int64_t kAllowanceLeastMs = 10 * 60'000;
constexpr int64_t kOverstayLeastMs = 60'000;

struct Expected {
  EndSource source = EndSource::kNone;
  int64_t ms = 0;  // running time of the whole job
};

Expected ExpectedTotal(const SchedulingState& state, const v1::JobRecord& job) {
  const v1::JobSpec& spec = job.spec();
  Expected expected;
  if (spec.estimate_ms() > 0) {
    expected = {EndSource::kEstimate, static_cast<int64_t>(spec.estimate_ms())};
  } else if (const std::optional<int64_t> earlier = state.earlier_runs.Find(job)) {
    expected = {EndSource::kEarlierRuns, *earlier};
  }
  const auto limit = static_cast<int64_t>(spec.max_duration_ms());
  if (limit > 0 && (expected.source == EndSource::kNone || limit < expected.ms))
    expected = {EndSource::kTimeLimit, limit};
  return expected;
}

// What is left of `total` for an attempt that starts at `resume_step`. One that starts from the beginning does all of
// it again, but the time limit counts every attempt.
int64_t LeftOf(const Expected& total, const v1::JobRecord& job, int64_t resume_step) {
  const bool counts = resume_step >= 0 || total.source == EndSource::kTimeLimit;
  return std::max<int64_t>(0, total.ms - (counts ? job.ran_ms() : 0));
}

}  // namespace

int64_t AllowanceOf(int64_t total_ms) { return std::max(kAllowanceLeastMs, total_ms / 4); }

ExpectedEnd EndOf(const SchedulingState& state, const v1::JobRecord& job,
                  const v1::Attempt& attempt, int64_t since_mono_ms, Now now) {
  ExpectedEnd end{.since_mono_ms = since_mono_ms};
  end.allowance_ms = AllowanceOf(now.mono_ms - since_mono_ms);
  if (attempt.stopping()) {
    end.source = EndSource::kStopping;
    const int64_t stopped_ms = std::max<int64_t>(0, now.wall_ms - attempt.stopping_ms());
    end.at_mono_ms =
        now.mono_ms + std::max<int64_t>(0, int64_t{attempt.stop_grace_ms()} - stopped_ms);
    end.allowance_ms = kOverstayLeastMs;
    return end;
  }
  const auto timers = state.timers.find(job.id());
  if (timers != state.timers.end() && NoticeStands(state, attempt)) {
    end.source = EndSource::kNotice;
    end.at_mono_ms =
        std::max(now.mono_ms, timers->second.noticed_mono_ms + attempt.notice().period_ms());
    return end;
  }
  if (timers != state.timers.end() && timers->second.progress.attempt == attempt.number() &&
      timers->second.progress.ends_mono_ms > 0) {
    end.source = EndSource::kProgress;
    end.at_mono_ms = timers->second.progress.ends_mono_ms;
  } else if (const Expected total = ExpectedTotal(state, job); total.source != EndSource::kNone) {
    end.source = total.source;
    end.at_mono_ms = since_mono_ms + LeftOf(total, job, attempt.resume_step());
  } else {
    return end;
  }
  end.allowance_ms = AllowanceOf(*end.at_mono_ms - since_mono_ms);
  const int64_t late_ms = now.mono_ms - *end.at_mono_ms;
  if (late_ms <= 0) return end;
  end.overstays = true;
  end.at_mono_ms = now.mono_ms + std::clamp(late_ms, kOverstayLeastMs, end.allowance_ms);
  return end;
}

std::optional<int64_t> ExpectedRunMs(const SchedulingState& state, const v1::JobRecord& job) {
  const Expected total = ExpectedTotal(state, job);
  if (total.source == EndSource::kNone) return std::nullopt;
  const v1::Checkpoint* latest = LatestCheckpoint(job);
  const int64_t left_ms = LeftOf(total, job, latest == nullptr ? -1 : latest->step());
  if (left_ms == 0) return std::nullopt;  // it has taken longer already
  return left_ms;
}

std::string NameOf(EndSource source) {
  switch (source) {
    case EndSource::kStopping:
      return "being stopped";
    case EndSource::kNotice:
      return "asked to give way";
    case EndSource::kProgress:
      return "its progress";
    case EndSource::kEstimate:
      return "its estimate";
    case EndSource::kEarlierRuns:
      return "its earlier runs";
    case EndSource::kTimeLimit:
      return "its time limit";
    case EndSource::kNone:
      break;
  }
  return "no estimate";
}

}  // namespace muster::coordinator
