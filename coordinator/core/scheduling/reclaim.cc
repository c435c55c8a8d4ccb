#include "coordinator/core/scheduling/reclaim.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduling/fit.h"

namespace muster::coordinator {
namespace {

// limit: jobs: jobs that are asked to give way to one job
constexpr size_t kVictimsMax = 64;
constexpr int64_t kWithoutCheckpoint = 4;  // × min_run

struct Runner {
  const v1::JobRecord* job = nullptr;
  const v1::Attempt* attempt = nullptr;
  uint64_t devices = 0;  // of the kind
  int64_t since_mono_ms = 0;
  bool leaves = false;  // it is being stopped, or has been asked to leave
};

uint64_t DevicesOf(const v1::Attempt& attempt, const std::string& kind) {
  uint64_t devices = 0;
  for (const v1::NodePart& part : attempt.parts()) {
    if (!part.ended() && part.device_kind() == kind)
      devices += static_cast<uint64_t>(part.device_indexes_size());
  }
  return devices;
}

bool MayBeAsked(const v1::JobSpec& spec) { return !spec.has_preemptible() || spec.preemptible(); }

// In the order in which they make up their project's quota: those that may not be asked, then by priority, then the
// earlier start. What leaves comes last.
bool StaysBefore(const Runner& a, const Runner& b) {
  const auto key = [](const Runner& each) {
    return std::tuple(each.leaves, MayBeAsked(each.job->spec()), -each.job->spec().priority(),
                      each.since_mono_ms, each.job->id());
  };
  return key(a) < key(b);
}

std::vector<Runner> RunnersOf(const SchedulingState& state, const std::string& kind) {
  std::vector<Runner> runners;
  for (const uint64_t id : state.active) {
    const v1::JobRecord& job = state.jobs.at(id);
    const v1::Attempt* attempt = LiveAttempt(job);
    if (attempt == nullptr) continue;
    Runner runner{&job, attempt, DevicesOf(*attempt, kind),
                  state.timers.at(id).attempt_since_mono_ms,
                  attempt->stopping() || NoticeStands(state, *attempt)};
    if (runner.devices > 0) runners.push_back(runner);
  }
  return runners;
}

// Of each project the gangs that do not fit into its quota, whole. Whether one is borrowed is found from the state
// each time, so it cannot disagree with a quota that was changed.
std::vector<Runner> Borrowed(const SchedulingState& state, std::vector<Runner> runners,
                             const std::string& kind) {
  std::sort(runners.begin(), runners.end(), StaysBefore);
  std::map<std::string, uint64_t> in_quota;
  std::vector<Runner> borrowed;
  for (const Runner& runner : runners) {
    const std::string& project = ProjectOf(*runner.job);
    uint64_t& used = in_quota[project];
    if (used + runner.devices <= QuotaOf(state.projects, project, kind)) {
      used += runner.devices;
    } else {
      borrowed.push_back(runner);
    }
  }
  return borrowed;
}

// 0: it has saved nothing in this attempt.
int64_t SavedMs(const Runner& runner) {
  int64_t saved_ms = 0;
  for (const v1::Checkpoint& checkpoint : runner.job->checkpoints()) {
    if (checkpoint.attempt() == runner.attempt->number() && !checkpoint.flagged_corrupt() &&
        checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED) {
      saved_ms = std::max(saved_ms, checkpoint.committed_ms());
    }
  }
  return saved_ms;
}

bool IsDueToLeave(const SchedulingState& state, const Runner& runner, Now now) {
  if (runner.leaves || !MayBeAsked(runner.job->spec())) return false;
  const bool can_lose = SavedMs(runner) > 0 || runner.job->spec().preemptible();
  const int64_t ran_ms = now.mono_ms - runner.since_mono_ms;
  return ran_ms >= state.settings.min_run_ms * (can_lose ? 1 : kWithoutCheckpoint);
}

// Device time that is lost if it cannot save in time. One that has saved before is expected to save again.
int64_t Loss(const Runner& runner, Now now) {
  if (SavedMs(runner) > 0) return 0;
  return (now.mono_ms - runner.since_mono_ms) * static_cast<int64_t>(runner.devices);
}

class Search {
 public:
  Search(Ground& ground, const v1::JobRecord& job)
      : ground_(ground), candidate_(ground, job), taken_(ground.UsageFor(candidate_)) {}

  // Empty: those that may be asked do not suffice.
  std::vector<Runner> Victims() {
    std::vector<Runner> chosen;
    for (const Runner& runner : Eligible()) {
      if (chosen.size() == kVictimsMax) return {};
      chosen.push_back(runner);
      if (FitsWithout(chosen)) return Pruned(std::move(chosen));
    }
    return {};
  }

 private:
  std::vector<Runner> Eligible() {
    const SchedulingState& state = ground_.state;
    std::vector<Runner> runners =
        Borrowed(state, RunnersOf(state, candidate_.kind()), candidate_.kind());
    // A project takes nothing from itself.
    std::erase_if(runners, [&](const Runner& each) {
      return ProjectOf(*each.job) == ProjectOf(candidate_.job) ||
             !IsDueToLeave(state, each, ground_.now);
    });
    std::sort(runners.begin(), runners.end(), [&](const Runner& a, const Runner& b) {
      const auto key = [&](const Runner& each) {
        return std::tuple(each.job->spec().priority(), Loss(each, ground_.now), -each.since_mono_ms,
                          -static_cast<int64_t>(each.job->id()));
      };
      return key(a) < key(b);
    });
    return runners;
  }

  bool FitsWithout(const std::vector<Runner>& gone) {
    Usage usage = taken_;
    for (const Runner& runner : gone) RemoveUsage(usage, *runner.attempt);
    return Fit(ground_.state, usage, candidate_.demand(), candidate_.kind(), Which::kFreeNow,
               NodesOfLastAttempt(candidate_.job))
        .has_value();
  }

  // Without those that are not needed, the last ones first.
  std::vector<Runner> Pruned(std::vector<Runner> chosen) {
    for (size_t i = chosen.size(); i-- > 0;) {
      std::vector<Runner> fewer = chosen;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (FitsWithout(fewer)) chosen = std::move(fewer);
    }
    return chosen;
  }

  Ground& ground_;
  Candidate candidate_;
  const Usage taken_;
};

bool MayClaim(const Ground& ground, Candidate& job) {
  const SchedulingState& state = ground.state;
  const std::string& project = ProjectOf(job.job);
  const int64_t waited_ms = ground.now.mono_ms - state.timers.at(job.job.id()).state_since_mono_ms;
  return waited_ms >= state.settings.reclaim_after_ms && !job.job.claims() &&
         ground.use.Of(project, job.kind()) + LeastDevices(job.job.spec().shape()) <=
             QuotaOf(state.projects, project, job.kind());
}

}  // namespace

std::vector<Claim> FindClaims(Ground& ground, const std::vector<uint64_t>& firsts) {
  const SchedulingState& state = ground.state;
  if (!HasQuotas(state.projects)) return {};
  std::set<std::string> claiming;
  for (const QueuePlace& place : state.queue) {
    if (!place.claims) break;  // they are first
    claiming.insert(ProjectOf(state.jobs.at(place.job)));
  }
  std::vector<Claim> claims;
  std::set<uint64_t> asked;
  for (const uint64_t id : firsts) {
    const v1::JobRecord& job = state.jobs.at(id);
    Candidate candidate(ground, job);
    if (claiming.contains(ProjectOf(job)) || !MayClaim(ground, candidate)) continue;
    const std::vector<Runner> victims = Search(ground, job).Victims();
    // Two claims of one pass do not count on the same job.
    const bool is_taken = std::any_of(victims.begin(), victims.end(), [&](const Runner& each) {
      return asked.contains(each.job->id());
    });
    if (victims.empty() || is_taken) continue;
    Claim claim{.job = id,
                .reason = absl::StrCat("job ", job.name(), " of project ", ProjectOf(job),
                                       ", which is within its quota")};
    for (const Runner& victim : victims) {
      asked.insert(victim.job->id());
      v1::Victim& named = claim.victims.emplace_back();
      named.set_job(victim.job->id());
      named.set_attempt(victim.attempt->number());
    }
    claiming.insert(ProjectOf(job));
    claims.push_back(std::move(claim));
  }
  return claims;
}

}  // namespace muster::coordinator
