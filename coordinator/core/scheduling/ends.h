// When running attempts are expected to end, which decides when the first waiting job can start and which
// jobs may pass it. Nothing here stops a job. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// What an expected end is known from, the best source first.
enum class EndSource {
  kStopping,     // it is being stopped
  kNotice,       // it was asked to give way
  kProgress,     // its trainer's steps (JobTimers::progress)
  kEstimate,     // JobSpec.estimate_ms
  kEarlierRuns,  // what earlier runs of this name took (state/earlier_runs.h)
  kTimeLimit,    // JobSpec.max_duration_ms
  kNone,
};

struct ExpectedEnd {
  EndSource source = EndSource::kNone;
  // nullopt: nothing is known; it counts as later than every known end.
  std::optional<int64_t> at_mono_ms;
  int64_t since_mono_ms = 0;  // it has had its devices since then
  // How much later the scheduler allows for: a quarter of what it takes in all, at least 10 minutes.
  int64_t allowance_ms = 0;
  // It was expected to have ended. It is now expected to overstay as long again, at least a minute and at most
  // allowance_ms.
  bool overstays = false;

  // The end is not sooner than this, as far as the scheduler plans: of an unknown end, it goes by how long the
  // attempt has lasted.
  int64_t NotBeforeMonoMs(Now now) const { return at_mono_ms.value_or(now.mono_ms + allowance_ms); }
};

// Of something that takes so long in all.
int64_t AllowanceOf(int64_t total_ms);
ExpectedEnd EndOf(const SchedulingState& state, const v1::JobRecord& job,
                  const v1::Attempt& attempt, int64_t since_mono_ms, Now now);
// How long an attempt of the job would take that started now; nullopt: nothing is known.
std::optional<int64_t> ExpectedRunMs(const SchedulingState& state, const v1::JobRecord& job);
// "its estimate", "its progress", "no estimate": what an end is known from, for people.
std::string NameOf(EndSource source);

}  // namespace muster::coordinator
