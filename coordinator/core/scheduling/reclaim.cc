#include "coordinator/core/scheduling/reclaim.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduling/fit.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {
namespace {

// limit: jobs: jobs that are asked to give way to one job
constexpr size_t kVictimsMax = 64;
constexpr int64_t kWithoutCheckpoint = 4;  // × min_run
constexpr int64_t kOverdueMs = 120'000;
// Older workers do not tell ranks that they are to leave.
constexpr uint32_t kProtocolTellsOfNotices = 4;

struct Runner {
  const v1::JobRecord* job = nullptr;
  const v1::Attempt* attempt = nullptr;
  uint64_t devices = 0;       // of the kind
  int64_t since_mono_ms = 0;  // it has had its devices since then
  int64_t ran_ms = -1;        // all its ranks have run for so long; -1: not yet
  bool leaves = false;        // it is being stopped, or has been asked to leave
  bool has_saved = false;     // in this attempt, and would again
  int64_t loss = 0;           // device time, if it cannot save in time
};

uint64_t DevicesOf(const v1::Attempt& attempt, const std::string& kind) {
  uint64_t devices = 0;
  for (const v1::NodePart& part : attempt.parts()) {
    if (!part.ended() && part.device_kind() == kind)
      devices += static_cast<uint64_t>(part.device_indexes_size());
  }
  return devices;
}

// In the order in which they make up their project's quota: those that may not be asked, then by priority, then the
// earlier start. What leaves comes last.
bool StaysBefore(const Runner& a, const Runner& b) {
  const auto key = [](const Runner& each) {
    return std::tuple(each.leaves, MayBeAskedToGiveWay(each.job->spec()),
                      -each.job->spec().priority(), each.since_mono_ms, each.job->id());
  };
  return key(a) < key(b);
}

bool HasSaved(const v1::JobRecord& job, const v1::Attempt& attempt) {
  return std::any_of(
      job.checkpoints().begin(), job.checkpoints().end(), [&](const v1::Checkpoint& checkpoint) {
        return checkpoint.attempt() == attempt.number() && !checkpoint.flagged_corrupt() &&
               checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED;
      });
}

// Whether all its workers would tell its ranks to save.
bool IsTold(const SchedulingState& state, const v1::Attempt& attempt) {
  return std::all_of(attempt.parts().begin(), attempt.parts().end(), [&](const v1::NodePart& part) {
    const Node* node = FindNode(state, part.node());
    return node != nullptr && node->record.facts().protocol() >= kProtocolTellsOfNotices;
  });
}

std::vector<Runner> RunnersOf(const SchedulingState& state, const std::string& kind, Now now) {
  std::vector<Runner> runners;
  for (const uint64_t id : state.active) {
    const v1::JobRecord& job = state.jobs.at(id);
    const v1::Attempt* attempt = LiveAttempt(job);
    if (attempt == nullptr) continue;
    const JobTimers& timers = state.timers.at(id);
    Runner runner{&job, attempt, DevicesOf(*attempt, kind), timers.attempt_since_mono_ms};
    if (runner.devices == 0) continue;
    if (attempt->running_ms() > 0) runner.ran_ms = now.mono_ms - timers.running_since_mono_ms;
    runner.leaves = attempt->stopping() || NoticeStands(state, *attempt);
    // One that has saved before is expected to save again, if it is told.
    runner.has_saved = HasSaved(job, *attempt) && IsTold(state, *attempt);
    if (!runner.has_saved)
      runner.loss = std::max<int64_t>(0, runner.ran_ms) * static_cast<int64_t>(runner.devices);
    runners.push_back(runner);
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

bool IsDueToLeave(const SchedulingState& state, const Runner& runner) {
  if (runner.leaves || runner.ran_ms < 0 || !MayBeAskedToGiveWay(runner.job->spec())) return false;
  const bool can_lose = runner.has_saved || runner.job->spec().preemptible();
  return runner.ran_ms >= state.settings.min_run_ms * (can_lose ? 1 : kWithoutCheckpoint);
}

// What the project of a waiting job would have with it.
struct OwnShare {
  bool in_quota = false;
  bool is_at_limit = false;
  // So much its own jobs have to give up: else it would have more than its quota, and than it has now, or than its limit.
  uint64_t own_least = 0;
};

OwnShare ShareOf(const Ground& ground, Candidate& job) {
  const ProjectShares& shares = ground.state.projects;
  const std::string& project = ProjectOf(job.job);
  const uint64_t used = ground.use.Of(project, job.kind());
  const uint64_t with = used + LeastDevices(job.job.spec().shape());
  const uint64_t quota = QuotaOf(shares, project, job.kind());
  const uint64_t limit = LimitOf(shares, project, job.kind());
  OwnShare share{.in_quota = with <= quota, .is_at_limit = limit > 0 && with > limit};
  share.own_least = with - std::min(with, std::max(quota, used));
  if (share.is_at_limit) share.own_least = std::max(share.own_least, with - limit);
  return share;
}

bool MayClaim(const Ground& ground, const v1::JobRecord& job) {
  const int64_t waited_ms =
      ground.now.mono_ms - ground.state.timers.at(job.id()).state_since_mono_ms;
  return waited_ms >= ground.state.settings.reclaim_after_ms && !job.claims();
}

// What keeps the job from starting, however many devices are free. `use`: once others have left. Empty: nothing does.
std::string WhyMayNot(const ProjectUse& use, Candidate& job) {
  const std::string& project = ProjectOf(job.job);
  if (!use.FitsLimit(job.job, job.kind()))
    return absl::StrCat("project ", project, " is at its limit");
  if (!use.FitsQuotaIfItStays(job.job, job.kind()))
    return absl::StrCat("project ", project, " uses its quota for jobs that may not be asked");
  return use.FitsPerson(job.job, job.kind()) ? "" : "its owner is at the limit of a person";
}

bool LosesLess(const Runner& a, const Runner& b) {
  const auto key = [](const Runner& each) {
    return std::tuple(each.job->spec().priority(), each.loss, -each.since_mono_ms,
                      -static_cast<int64_t>(each.job->id()));
  };
  return key(a) < key(b);
}

// What runs on one kind of device, for all searches of a pass.
struct Field {
  std::vector<Runner> all, borrowed;
  std::map<std::string, int32_t> lowest;  // priority, by project

  Field(const SchedulingState& state, const std::string& kind, Now now)
      : all(RunnersOf(state, kind, now)), borrowed(Borrowed(state, all, kind)) {
    for (const Runner& runner : all) {
      const int32_t priority = runner.job->spec().priority();
      const auto [at, fresh] = lowest.try_emplace(ProjectOf(*runner.job), priority);
      if (!fresh) at->second = std::min(at->second, priority);
    }
  }
  bool HasLower(const v1::JobRecord& than) const {
    const auto of_project = lowest.find(ProjectOf(than));
    return of_project != lowest.end() && of_project->second < than.spec().priority();
  }
};

class Search {
 public:
  Search(Ground& ground, const Field& field, const v1::JobRecord& job)
      : ground_(ground),
        field_(field),
        candidate_(ground, job),
        taken_(ground.UsageFor(candidate_)),
        share_(ShareOf(ground, candidate_)) {}

  // Empty: those that may be asked do not suffice, or are not needed.
  std::vector<Runner> Victims() {
    // Looking at what runs costs something, too.
    ground_.Spend(1 + field_.all.size() / (ground_.state.nodes.size() + 1));
    const std::vector<Runner> all = Eligible();
    if (all.empty() || !Suffice(all)) return {};
    // What is only held for others is not worth a job that runs.
    if (!share_.is_at_limit && FitIn(ground_.InUse()).has_value()) return {};
    // With more of them gone it fits, too.
    size_t too_few = 0, enough = all.size();
    while (too_few + 1 < enough) {
      const size_t middle = too_few + (enough - too_few) / 2;
      (Suffice(First(all, middle)) ? enough : too_few) = middle;
    }
    std::vector<Runner> chosen = First(all, enough);
    const std::vector<Share> shares = *FitWithout(chosen);
    std::erase_if(chosen, [&](const Runner& each) {
      return !(share_.own_least > 0 && IsOwn(each)) &&
             !HasDeviceOf(*each.attempt, candidate_.kind(), shares);
    });
    chosen = Pruned(std::move(chosen));
    if (chosen.size() > kVictimsMax || !Suffice(chosen)) chosen.clear();
    ProjectUse use = ground_.use;
    for (const Runner& each : chosen) use.Remove(*each.job, *each.attempt);
    if (!WhyMayNot(use, candidate_).empty()) chosen.clear();
    return chosen;
  }

  bool IsOwn(const Runner& runner) const {
    return ProjectOf(*runner.job) == ProjectOf(candidate_.job);
  }

 private:
  static std::vector<Runner> First(const std::vector<Runner>& all, size_t count) {
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  // What its own project's jobs have to give up comes first, otherwise last.
  std::vector<Runner> Eligible() {
    const SchedulingState& state = ground_.state;
    std::vector<Runner> own, others;
    for (const Runner& each : field_.all) {
      const bool is_lower = each.job->spec().priority() < candidate_.job.spec().priority();
      if (IsOwn(each) && is_lower && IsDueToLeave(state, each)) own.push_back(each);
    }
    if (share_.in_quota) others = field_.borrowed;
    std::erase_if(others,
                  [&](const Runner& each) { return IsOwn(each) || !IsDueToLeave(state, each); });
    std::sort(own.begin(), own.end(), LosesLess);
    std::sort(others.begin(), others.end(), LosesLess);
    std::vector<Runner>& first = share_.own_least > 0 ? own : others;
    const std::vector<Runner>& last = share_.own_least > 0 ? others : own;
    first.insert(first.end(), last.begin(), last.end());
    return first;
  }

  std::optional<std::vector<Share>> FitIn(const Usage& usage) {
    ground_.Spend(1);
    return Fit(ground_.state, usage, candidate_.demand(), candidate_.kind(), Which::kFreeNow,
               NodesOfLastAttempt(candidate_.job));
  }
  std::optional<std::vector<Share>> FitWithout(const std::vector<Runner>& gone) {
    Usage usage = taken_;
    for (const Runner& runner : gone) usage.Remove(*runner.attempt);
    return FitIn(usage);
  }
  bool Suffice(const std::vector<Runner>& gone) {
    uint64_t own = 0;
    for (const Runner& runner : gone) own += IsOwn(runner) ? runner.devices : 0;
    return own >= share_.own_least && FitWithout(gone).has_value();
  }

  // Without those that are not needed, the last ones first.
  std::vector<Runner> Pruned(std::vector<Runner> chosen) {
    for (size_t i = chosen.size(); i-- > 0;) {
      std::vector<Runner> fewer = chosen;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (Suffice(fewer)) chosen = std::move(fewer);
    }
    return chosen;
  }

  Ground& ground_;
  const Field& field_;
  Candidate candidate_;
  const Usage taken_;
  const OwnShare share_;
};

std::string ReasonOf(const v1::JobRecord& job, const std::vector<Runner>& victims,
                     const Search& search) {
  const auto owns = static_cast<size_t>(std::count_if(
      victims.begin(), victims.end(), [&](const Runner& each) { return search.IsOwn(each); }));
  if (owns == victims.size())
    return absl::StrCat("job ", job.name(), ", which has a higher priority");
  return absl::StrCat("job ", job.name(), " of project ", ProjectOf(job),
                      ", which is within its quota",
                      owns > 0 ? " and has a higher priority there" : "");
}

}  // namespace

std::optional<Claim> FindClaim(Ground& ground, const std::vector<uint64_t>& waiting) {
  const SchedulingState& state = ground.state;
  if (!HasQuotas(state.projects)) return std::nullopt;
  std::set<std::string> claiming;
  for (const QueuePlace& place : state.queue) {
    if (!place.claims) break;  // they are first
    claiming.insert(ProjectOf(state.jobs.at(place.job)));
  }
  std::map<std::string, Field> fields;
  // What was not found for one job is not found for a like one behind it.
  std::set<std::tuple<std::string, std::string, int32_t>> in_vain;
  for (const uint64_t id : waiting) {
    const v1::JobRecord& job = state.jobs.at(id);
    Candidate candidate(ground, job);
    if (ground.is_spent()) break;
    if (claiming.contains(ProjectOf(job)) || !MayClaim(ground, job)) continue;
    auto field = fields.find(candidate.kind());
    if (field == fields.end())
      field = fields.emplace(candidate.kind(), Field(state, candidate.kind(), ground.now)).first;
    const bool in_quota = ShareOf(ground, candidate).in_quota;
    if (!in_quota && !field->second.HasLower(job)) continue;
    if (in_quota) claiming.insert(ProjectOf(job));  // the first of the project that is
    if (!in_vain
             .emplace(OwnerKey(job) + ProjectOf(job), candidate.demand_key(), job.spec().priority())
             .second) {
      continue;
    }
    Search search(ground, field->second, job);
    const std::vector<Runner> victims = search.Victims();
    if (victims.empty()) continue;
    Claim claim{.job = id, .reason = ReasonOf(job, victims, search)};
    for (const Runner& victim : victims) {
      v1::Victim& named = claim.victims.emplace_back();
      named.set_job(victim.job->id());
      named.set_attempt(victim.attempt->number());
    }
    return claim;
  }
  return std::nullopt;
}

std::optional<Borrowing> BorrowingOf(const SchedulingState& state, const v1::JobRecord& job,
                                     Now now) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr || !HasQuotas(state.projects)) return std::nullopt;
  Borrowing borrowing{.kind = job.resolved_device_kind()};
  for (const Runner& runner :
       Borrowed(state, RunnersOf(state, borrowing.kind, now), borrowing.kind)) {
    if (runner.job->id() != job.id()) continue;
    const auto in_ms = [&](int64_t after_ms) {
      return std::max<int64_t>(0, after_ms - std::max<int64_t>(0, runner.ran_ms));
    };
    borrowing.devices = runner.devices;
    borrowing.has_saved = runner.has_saved || job.spec().preemptible();
    const int64_t at_once_ms = in_ms(state.settings.min_run_ms);
    const int64_t else_ms = in_ms(state.settings.min_run_ms * kWithoutCheckpoint);
    borrowing.in_ms = borrowing.has_saved ? at_once_ms : else_ms;
    borrowing.once_saved_ms = borrowing.has_saved || IsTold(state, *attempt) ? at_once_ms : else_ms;
  }
  return borrowing;
}

std::string WhyClaimEnds(Ground& ground, const v1::JobRecord& job) {
  const SchedulingState& state = ground.state;
  Candidate candidate(ground, job);
  const std::string& project = ProjectOf(job);
  const bool quota_suffices =
      LeastDevices(job.spec().shape()) <= QuotaOf(state.projects, project, candidate.kind());
  Usage usage = ground.InUse();
  ProjectUse use = ground.use;
  std::string overdue;
  for (const uint64_t id : state.active) {
    const v1::JobRecord& other = state.jobs.at(id);
    const v1::Attempt* attempt = LiveAttempt(other);
    if (attempt == nullptr || !attempt->has_notice() || attempt->notice().by() != job.id())
      continue;
    const bool is_own = ProjectOf(other) == project;
    // One that stops already may have been asked by an earlier claim, whose reasons no longer count.
    if (!attempt->stopping()) {
      if (!is_own && !quota_suffices)
        return absl::StrCat("the quota of project ", project, " is too small for it now");
      if (is_own && other.spec().priority() >= job.spec().priority())
        return absl::StrCat("its priority is not above that of job ", other.name(), " any more");
    }
    use.Remove(other, *attempt);
    // Its node may be silent, and the job told to wait for it. It may have been asked by an earlier claim, too.
    const int64_t due = state.timers.at(id).noticed_mono_ms + attempt->notice().period_ms() +
                        GraceMsOf(state, other.spec()) + kOverdueMs;
    if (ground.now.mono_ms > due) {
      overdue = other.name();
    } else {
      usage.Remove(*attempt);
    }
  }
  if (std::string why = WhyMayNot(use, candidate); !why.empty()) return why;
  ground.Spend(1);
  // A node may be out of reach for a moment, which does not end a claim.
  if (Fit(state, usage, candidate.demand(), candidate.kind(), Which::kFreeLater,
          NodesOfLastAttempt(job))
          .has_value())
    return "";
  return overdue.empty() ? "what others give up does not suffice any more"
                         : absl::StrCat("job ", overdue, " does not end");
}

}  // namespace muster::coordinator
