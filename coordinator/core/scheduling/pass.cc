#include "coordinator/core/scheduling/pass.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/scheduling/attempt.h"
#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {
namespace {

constexpr size_t kWaitingMost = 1'000;

}  // namespace

Pass::Pass(const SchedulingState& state, Asides& found, Now now)
    : now_(now), ground_(state, found, now) {
  for (const MakePolicy make : Policies()) policies_.push_back(make(ground_));
}

std::vector<Verdict> Pass::Run(size_t jobs_max) {
  QueueWalk walk(ground_, jobs_max);
  while (const v1::JobRecord* job = EndsHere() ? nullptr : walk.Next()) {
    if (job->cancel_requested()) continue;
    order_.push_back(job->id());
    const Outcome outcome = Visit(*job);
    if (outcome == Outcome::kLimited) walk.EndLine();
    if (outcome == Outcome::kWaits) walk.Waits();
  }
  was_cut_ = walk.was_cut();
  TellAgain();
  VisitToldBehind();
  return std::move(verdicts_);
}

// What is free changed with each job that passed.
void Pass::TellAgain() {
  for (const Told& told : told_) {
    if (told.starts == starts()) continue;
    Verdict& verdict = verdicts_[told.verdict];
    Candidate candidate(ground_, ground_.state.jobs.at(verdict.job));
    verdict.blockers = {told.policy->Why(candidate)};
  }
}

Pass::Outcome Pass::Visit(const v1::JobRecord& job) {
  Candidate candidate(ground_, job);
  ground_.Visit(candidate);
  // The job waits regardless of running jobs, and its reason already states that.
  if (ground_.any_in_service && ground_.memo.Knows(job.id())) return Wait(candidate, true);
  for (const auto& policy : policies_) {
    if (!policy->Allows(candidate)) return Wait(candidate, *policy);
  }
  return Start(candidate);
}

Pass::Outcome Pass::Wait(Candidate& job, Policy& policy) {
  const uint64_t id = job.job.id();
  if (std::optional<Blocker> lasting = policy.WhyLasting(job)) {
    const bool others_pass = RowOf(lasting->reason).others_pass;
    ground_.memo.Keep(id);
    verdicts_.push_back({.job = id, .blockers = {*std::move(lasting)}});
    return Wait(job, others_pass);
  }
  if (!policy.IsAboutDevices()) {
    verdicts_.push_back({.job = id, .blockers = {policy.Why(job)}});
    const bool ends_line = policy.EndsLine(job);
    // At its limit it may take the place of one of the same project.
    if (ends_line && waiting_.size() < kWaitingMost) waiting_.push_back(id);
    Wait(job, !job.job.claims());
    return ends_line ? Outcome::kLimited : Outcome::kAside;
  }
  Wait(job, false);
  if (waiting_.size() < kWaitingMost) waiting_.push_back(id);
  const bool is_told = ground_.PlaceOfHolder(id) != nullptr || !ground_.any_in_service;
  // As it was told before.
  if (!is_told && job.job.reason() == RowOf(Reason::kBehindOthers).text) return Outcome::kWaits;
  if (is_told) told_.push_back({verdicts_.size(), &policy, starts()});
  verdicts_.push_back(
      {.job = id, .blockers = {is_told ? policy.Why(job) : MakeBlocker(Reason::kBehindOthers)}});
  return Outcome::kWaits;
}

// The reasons of jobs beyond the bound may name devices that are no longer free.
void Pass::VisitToldBehind() {
  if (!EndsHere()) return;
  for (const uint64_t id : ground_.state.told) {
    const v1::JobRecord& job = ground_.state.jobs.at(id);
    if (ground_.WasVisited(id) || job.cancel_requested()) continue;
    std::optional<Blocker> lasting = WhyLasting(job);
    verdicts_.push_back({.job = id,
                         .blockers = {lasting.has_value() ? *std::move(lasting)
                                                          : MakeBlocker(Reason::kBehindOthers)}});
  }
}

const HeldPlace* Pass::PlaceAhead(const v1::JobRecord& job) {
  Candidate candidate(ground_, job);
  return ground_.PlaceAhead(candidate);
}

const HeldPlace* Pass::PlaceFor(const v1::JobRecord& job) const {
  return ground_.PlaceOfHolder(job.id());
}

std::optional<int64_t> Pass::MayStartForMs(const v1::JobRecord& job) {
  if (MayStart(job)) return std::nullopt;
  Candidate candidate(ground_, job);
  const std::optional<int64_t> most_ms = ground_.TimeInPlaces(candidate);
  if (!most_ms.has_value()) return std::nullopt;
  v1::JobRecord shorter = job;
  shorter.mutable_spec()->set_estimate_ms(static_cast<uint64_t>(*most_ms));
  return MayStart(shorter) ? most_ms : std::nullopt;
}

Verdict Pass::Judge(const v1::JobRecord& job) {
  Verdict verdict{.job = job.id()};
  Candidate candidate(ground_, job);
  for (const auto& policy : policies_) {
    if (!policy->Allows(candidate)) verdict.blockers.push_back(policy->Why(candidate));
  }
  const bool is_behind = ground_.PlaceOfHolder(job.id()) == nullptr &&
                         (ground_.IsBehind(candidate) || ground_.HeldFrom(candidate) != 0);
  if (is_behind && !verdict.blockers.empty() &&
      verdict.blockers.front().reason != Reason::kBehindOthers) {
    verdict.blockers.insert(verdict.blockers.begin(), MakeBlocker(Reason::kBehindOthers));
  }
  if (verdict.blockers.empty()) verdict.start = MakeAttempt(ground_.state, candidate, now_);
  return verdict;
}

bool Pass::MayStart(const v1::JobRecord& job) {
  Candidate candidate(ground_, job);
  return std::all_of(policies_.begin(), policies_.end(),
                     [&](const auto& policy) { return policy->Allows(candidate); });
}

std::optional<Blocker> Pass::WhyLasting(const v1::JobRecord& job) {
  Candidate candidate(ground_, job);
  for (const auto& policy : policies_) {
    if (std::optional<Blocker> blocker = policy->WhyLasting(candidate)) return blocker;
  }
  return std::nullopt;
}

bool Pass::EndsHere() const {
  return std::any_of(policies_.begin(), policies_.end(),
                     [](const auto& policy) { return policy->EndsPass(); });
}

// The attempt exists from here on, and holds its devices.
Pass::Outcome Pass::Start(Candidate& job) {
  v1::Attempt attempt = MakeAttempt(ground_.state, job, now_);
  ground_.Start(job.job, attempt);
  verdicts_.push_back({.job = job.job.id(), .start = std::move(attempt)});
  return Outcome::kStarts;
}

Pass::Outcome Pass::Wait(Candidate& job, bool others_pass) {
  for (const auto& policy : policies_) policy->OnWait(job, others_pass);
  return others_pass ? Outcome::kAside : Outcome::kWaits;
}

std::optional<Blocker> WhyNever(const SchedulingState& state, const v1::JobRecord& job, Now now) {
  Asides found;
  std::optional<Blocker> blocker = Pass(state, found, now).WhyLasting(job);
  if (blocker.has_value() && RowOf(blocker->reason).lasts != Lasts::kForGood) blocker.reset();
  return blocker;
}

}  // namespace muster::coordinator
