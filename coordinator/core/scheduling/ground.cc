#include "coordinator/core/scheduling/ground.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/device_kinds.h"
#include "common/job/rules.h"
#include "common/job/shape.h"

namespace muster::coordinator {
Ground::Ground(const SchedulingState& state, Asides& found, Now now)
    : state(state),
      now(now),
      memo(state.asides, found),
      any_in_service(std::any_of(state.nodes.begin(), state.nodes.end(),
                                 [](const auto& named) { return IsInService(named.second); })),
      use(state),
      one_queue_(!HasQuotas(state.projects)) {}

// Of one queue, all jobs are of one project.
std::string_view Ground::LineOf(const v1::JobRecord& job) const {
  return one_queue_ ? std::string_view() : ProjectOf(job);
}

const std::string& Ground::usual_kind() {
  if (usual_kind_.empty()) usual_kind_ = ResolveKind(state, {});
  return usual_kind_;
}

const std::string& Ground::KindOf(const v1::JobRecord& job) {
  const std::string& named = job.spec().shape().device().kind();
  return named.empty() ? usual_kind() : named;
}

// ---------------------------------------------------------------- what is free

uint64_t Ground::FreeOf(uint32_t places, const std::string& kind) {
  for (const Free& each : free_) {
    if (each.places == places && each.kind == kind) return each.devices;
  }
  Free& at = free_.emplace_back(Free{places, kind, 0});
  Usage::Walk used(UsageWithout(places));
  for (const auto& [name, node] : state.nodes) {
    if (!IsUsableNow(node)) continue;
    const v1::NodeFacts& facts = node.record.facts();
    if (facts.oversubscribe_cpu() && common::IsHostKind(kind)) return at.devices = UINT64_MAX;
    // What is held may also be in use.
    ForEachFree(OfKind(node.devices, kind), OfKind(used.At(name, node), kind),
                [&](uint32_t) { ++at.devices; });
  }
  return at.devices;
}

bool Ground::HasEnoughFor(Candidate& job) {
  return LeastDevices(job.job.spec().shape()) <= FreeOf(HeldFrom(job), job.kind());
}

const Usage& Ground::UsageWithout(uint32_t places) {
  const auto [at, fresh] = usages_.try_emplace(places);
  if (!fresh) return at->second;
  if (places == 0) return at->second = Usage::Of(state);
  at->second = UsageWithout(0);
  for (size_t i = 0; i < places_.size(); ++i) {
    if ((places >> i & 1) != 0) at->second.Add(places_[i].kind, places_[i].shares);
  }
  return at->second;
}

const Usage& Ground::UsageFor(Candidate& job) { return UsageWithout(HeldFrom(job)); }

size_t Ground::PlacesAhead(const v1::JobRecord& job) const {
  const auto visited = visited_.find(job.id());
  return visited == visited_.end() ? places_.size() : visited->second.places;
}

uint32_t Ground::HeldFrom(Candidate& job) {
  uint32_t held = 0;
  for (size_t i = 0; i < PlacesAhead(job.job); ++i) {
    const HeldPlace& place = places_[i];
    if (place.kind != job.kind()) continue;
    const std::optional<int64_t> run_ms = job.expected_run_ms();
    // What others give up for a job is for that job alone.
    if (place.holder.claims || !run_ms.has_value() ||
        now.mono_ms + *run_ms > place.not_before_mono_ms) {
      held |= 1u << i;
    }
  }
  return held;
}

std::optional<int64_t> Ground::TimeInPlaces(Candidate& job) {
  const uint32_t held = HeldFrom(job);
  std::optional<int64_t> least_ms;
  for (size_t i = 0; i < places_.size(); ++i) {
    const int64_t left_ms = places_[i].not_before_mono_ms - now.mono_ms;
    if ((held >> i & 1) != 0) least_ms = std::min(least_ms.value_or(left_ms), left_ms);
  }
  return least_ms.value_or(0) >= job::kEstimateMs.least ? least_ms : std::nullopt;
}

// ---------------------------------------------------------------- who waits

void Ground::Visit(Candidate& job) {
  visited_[job.job.id()] = {.places = places_.size(), .behind = IsBehind(job)};
}

bool Ground::IsBehind(Candidate& job) {
  const auto visited = visited_.find(job.job.id());
  if (visited != visited_.end()) return visited->second.behind;
  return waiting_.contains({LineOf(job.job), job.kind()});
}

const HeldPlace* Ground::PlaceAhead(Candidate& job) {
  const uint32_t held = HeldFrom(job);
  const HeldPlace* other = nullptr;
  for (size_t i = 0; i < PlacesAhead(job.job); ++i) {
    const HeldPlace& place = places_[i];
    if (place.kind != job.kind()) continue;
    if (LineOf(state.jobs.at(place.holder.job)) == LineOf(job.job)) return &place;
    if (other == nullptr && (held >> i & 1) != 0) other = &place;
  }
  return other;
}

const HeldPlace* Ground::PlaceOfHolder(uint64_t job) const {
  const auto place = std::find_if(places_.begin(), places_.end(),
                                  [&](const HeldPlace& each) { return each.holder.job == job; });
  return place == places_.end() ? nullptr : &*place;
}

// ---------------------------------------------------------------- what a pass does

const std::vector<Occupant>& Ground::occupants() {
  if (!occupants_.has_value()) {
    occupants_ = OccupantsOf(state, now);
    for (const auto& [job, attempt] : started_) {
      AddOccupant(*occupants_, {job, &attempt, EndOf(state, *job, attempt, now.mono_ms, now)});
    }
  }
  return *occupants_;
}

void Ground::Start(const v1::JobRecord& job, const v1::Attempt& attempt) {
  UsageWithout(0);
  for (auto& [places, usage] : usages_) usage.Add(attempt);
  if (!state.projects.empty()) use.Add(job, attempt);
  // What it takes may be held for others: without these devices they were not counted as free.
  std::erase_if(free_, [](const Free& free) { return free.places != 0; });
  for (const v1::NodePart& part : attempt.parts()) {
    for (Free& free : free_) {
      const auto taken = static_cast<uint64_t>(part.device_indexes_size());
      if (free.kind == part.device_kind() && free.devices != UINT64_MAX)
        free.devices -= std::min(free.devices, taken);
    }
  }
  const auto& [kept_job, kept] = started_.emplace_back(&job, attempt);
  if (occupants_.has_value())
    AddOccupant(*occupants_, {kept_job, &kept, EndOf(state, job, kept, now.mono_ms, now)});
}

bool Ground::HasStarted(uint64_t job) const {
  return std::any_of(started_.begin(), started_.end(),
                     [&](const auto& started) { return started.first->id() == job; });
}

// As if only what gives way to the job ended: where else something may end sooner, nothing is held for it.
std::optional<HeldPlace> Ground::PlaceOfClaim(Candidate& job) {
  std::vector<Occupant> victims;
  std::vector<HeldPlace> others = places_;
  for (const Occupant& occupant : occupants()) {
    const v1::Attempt& attempt = *occupant.attempt;
    if (attempt.has_notice() && attempt.notice().by() == job.job.id()) {
      victims.push_back(occupant);
      continue;
    }
    HeldPlace& taken = others.emplace_back(HeldPlace{.kind = job.kind()});
    for (const v1::NodePart& part : attempt.parts()) {
      if (part.ended() || part.device_kind() != job.kind()) continue;
      taken.shares.push_back(
          {.node = part.node(),
           .devices = {part.device_indexes().begin(), part.device_indexes().end()}});
    }
  }
  return FindHeldPlace(state, victims, others, job.demand(), job.kind(), job.job, now);
}

void Ground::Wait(Candidate& job) {
  if (!waiting_.insert({LineOf(job.job), job.kind()}).second) return;
  const bool claims = job.job.claims();
  if (places_.size() >= (claims ? kPlacesWithClaimsMax : kPlacesMax)) return;
  Spend(16);  // about what the search of the end costs
  std::optional<HeldPlace> place =
      claims ? PlaceOfClaim(job)
             : FindHeldPlace(state, occupants(), places_, job.demand(), job.kind(), job.job, now);
  if (place.has_value()) places_.push_back(*std::move(place));
}

// ---------------------------------------------------------------- the job

const Demand& Candidate::demand() {
  if (!demand_.has_value()) {
    demand_ = DemandOf(job.spec());
    ground_.use.CutToShare(job, kind(), demand_->shape);
  }
  return *demand_;
}

std::optional<int64_t> Candidate::expected_run_ms() {
  if (!run_ms_.has_value()) run_ms_ = ExpectedRunMs(ground_.state, job);
  return *run_ms_;
}

const std::string& Candidate::demand_key() {
  if (key_.empty()) key_ = demand().Key();
  return key_;
}

const std::string& Candidate::kind() { return ground_.KindOf(job); }

std::string Candidate::Needs() {
  return absl::StrCat("needs ", job::DescribeDemand(demand().shape, kind()));
}

}  // namespace muster::coordinator
