#include "coordinator/core/scheduling/pass.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/shape.h"
#include "coordinator/core/scheduling/attempt.h"
#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {

Ground::Ground(const SchedulingState& state, Asides& found)
    : state(state),
      memo(state.asides, found),
      any_in_service(std::any_of(state.nodes.begin(), state.nodes.end(),
                                 [](const auto& named) { return IsInService(named.second); })) {}

Usage& Ground::usage() {
  if (!usage_.has_value()) usage_ = UsageOf(state);
  return *usage_;
}

const Demand& Candidate::demand() {
  if (!demand_.has_value()) demand_ = DemandOf(job.spec());
  return *demand_;
}

const std::string& Candidate::demand_key() {
  if (key_.empty()) key_ = demand().Key();
  return key_;
}

const std::string& Candidate::kind() {
  if (kind_.empty()) kind_ = ResolveKind(state_, job.spec().shape().device());
  return kind_;
}

std::string Candidate::Needs() {
  return absl::StrCat("needs ", job::DescribeDemand(demand().shape, kind()));
}

Pass::Pass(const SchedulingState& state, Asides& found, Now now)
    : now_(now), ground_(state, found) {
  for (const MakePolicy make : Policies()) policies_.push_back(make(ground_));
}

std::vector<Verdict> Pass::Run() {
  for (const QueuePlace& place : ground_.state.queue) {
    Visit(ground_.state.jobs.at(place.job));
    if (EndsAt().has_value()) break;
  }
  VisitToldBehind();
  return std::move(verdicts_);
}

void Pass::Visit(const v1::JobRecord& job) {
  if (job.cancel_requested()) return;
  // The job waits regardless of running jobs, and its reason already states that.
  if (ground_.any_in_service && ground_.memo.Knows(job.id())) return Wait(job, true);
  Candidate candidate(ground_.state, job);
  for (const auto& policy : policies_) {
    if (policy->Allows(candidate)) continue;
    Blocker blocker = policy->Why(candidate);
    const BlockerRow& row = RowOf(blocker.reason);
    if (row.lasts != Lasts::kUntilOthersMove) ground_.memo.Keep(job.id());
    verdicts_.push_back({.job = job.id(), .blockers = {std::move(blocker)}});
    return Wait(job, row.others_pass);
  }
  Start(candidate);
}

// The reasons of jobs further back may name devices that are no longer free.
void Pass::VisitToldBehind() {
  const std::optional<QueuePlace> end = EndsAt();
  if (!end.has_value()) return;
  for (const uint64_t id : ground_.state.told) {
    const v1::JobRecord& job = ground_.state.jobs.at(id);
    if (!(*end < PlaceOf(job)) || job.cancel_requested()) continue;
    std::optional<Blocker> lasting = WhyLasting(job);
    verdicts_.push_back({.job = id,
                         .blockers = {lasting.has_value() ? *std::move(lasting)
                                                          : MakeBlocker(Reason::kBehindOthers)}});
  }
}

const v1::JobRecord* Pass::Head() const {
  const std::optional<QueuePlace> end = EndsAt();
  return end.has_value() ? &ground_.state.jobs.at(end->job) : nullptr;
}

Verdict Pass::Judge(const v1::JobRecord& job) {
  Verdict verdict{.job = job.id()};
  Candidate candidate(ground_.state, job);
  for (const auto& policy : policies_) {
    if (!policy->Allows(candidate)) verdict.blockers.push_back(policy->Why(candidate));
  }
  if (verdict.blockers.empty()) verdict.start = MakeAttempt(ground_.state, candidate, now_);
  return verdict;
}

bool Pass::MayStart(const v1::JobRecord& job) {
  Candidate candidate(ground_.state, job);
  return std::all_of(policies_.begin(), policies_.end(),
                     [&](const auto& policy) { return policy->Allows(candidate); });
}

std::optional<Blocker> Pass::WhyLasting(const v1::JobRecord& job) {
  Candidate candidate(ground_.state, job);
  for (const auto& policy : policies_) {
    if (std::optional<Blocker> blocker = policy->WhyLasting(candidate)) return blocker;
  }
  return std::nullopt;
}

std::optional<QueuePlace> Pass::EndsAt() const {
  for (const auto& policy : policies_) {
    if (const std::optional<QueuePlace> end = policy->EndsAt()) return end;
  }
  return std::nullopt;
}

// The attempt exists from here on, and holds its devices.
void Pass::Start(Candidate& job) {
  v1::Attempt attempt = MakeAttempt(ground_.state, job, now_);
  for (const auto& policy : policies_) policy->OnStart(job.job, attempt);
  verdicts_.push_back({.job = job.job.id(), .start = std::move(attempt)});
}

void Pass::Wait(const v1::JobRecord& job, bool others_pass) {
  for (const auto& policy : policies_) policy->OnWait(job, others_pass);
}

std::optional<Blocker> WhyNever(const SchedulingState& state, const v1::JobRecord& job, Now now) {
  Asides found;
  std::optional<Blocker> blocker = Pass(state, found, now).WhyLasting(job);
  if (blocker.has_value() && RowOf(blocker->reason).lasts != Lasts::kForGood) blocker.reset();
  return blocker;
}

}  // namespace muster::coordinator
