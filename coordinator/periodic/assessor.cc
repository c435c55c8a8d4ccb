#include "coordinator/periodic/assessor.h"

#include <utility>

#include "common/base/status.h"
#include "coordinator/findings/rules.h"

namespace muster::coordinator {

absl::StatusOr<v1::Assessment> Assessor::Assess(const v1::JobRecord& job, common::Now now) {
  const std::shared_ptr<Known> known = Use(job.id());
  v1::Assessment assessment;
  {
    std::lock_guard lock(known->mutex);
    RETURN_IF_ERROR(CatchUp(job, now, *known));
    assessment = coordinator::Assess({.job = job,
                                      .history = known->history,
                                      .samples = known->samples,
                                      .now = now,
                                      .floor_ms = floor_ms_});
  }
  Keep(assessment, job.finished_ms() > 0);
  return assessment;
}

absl::Status Assessor::CatchUp(const v1::JobRecord& job, common::Now now, Known& known) const {
  if (known.reader == nullptr) known.reader = metrics_.Read(job.id());
  v1::MetricBatch batch;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, known.reader->Next(batch));
    if (!found) break;
    known.history.Take(batch, now.mono_ms);
  }
  TakeSamples(job, now, known);
  return absl::OkStatus();
}

void Assessor::TakeSamples(const v1::JobRecord& job, common::Now now, Known& known) const {
  if (job.attempts().empty()) return;
  if (job.finished_ms() > 0) {
    // The job was too short to be assessed while it ran.
    if (known.watch == nullptr && known.samples.empty()) ReadSamples(job, now, known.samples);
    known.watch = nullptr;
  } else if (known.watch == nullptr && IsMeasured(job.id())) {
    known.watch = samples_.Watch(job.id(), [waiting = known.waiting](const v1::SampleBatch& batch) {
      std::lock_guard lock(waiting->mutex);
      waiting->batches.push_back(batch);
      if (waiting->batches.size() > kWaitingMax) waiting->batches.pop_front();
    });
    ReadSamples(job, now, known.samples);
  }
  std::deque<v1::SampleBatch> waiting;
  {
    std::lock_guard lock(known.waiting->mutex);
    waiting.swap(known.waiting->batches);
  }
  for (const v1::SampleBatch& batch : waiting) known.samples.Take(batch);
}

// Reads what was stored before the first look: which ranks worked in each minute, and the newest minute
// in full. Samples may be lost anyway, so an error here has no other consequence.
void Assessor::ReadSamples(const v1::JobRecord& job, common::Now now,
                           SampleHistory& samples) const {
  const uint32_t attempt = job.attempts().rbegin()->number();
  const int64_t end_ms = job.finished_ms() > 0 ? job.finished_ms() : now.wall_ms;
  const int64_t newest_ms = end_ms - SampleHistory::kNewestMs;
  v1::SampleBucket bucket;
  const auto minutes =
      samples_.Read({.job = job.id(), .attempt = attempt, .tier = v1::SAMPLE_TIER_MINUTE});
  while (minutes->Next(bucket).value_or(false)) {
    if (bucket.last().time_ms() < newest_ms) {
      bucket.mutable_max()->set_meeting(bucket.last().meeting());
      samples.TakeEarlier(bucket.max(), bucket.batches());
    }
  }
  const auto seconds = samples_.Read({.job = job.id(), .attempt = attempt, .since_ms = newest_ms});
  while (seconds->Next(bucket).value_or(false)) samples.Take(bucket.last());
}

std::shared_ptr<Assessor::Known> Assessor::Use(uint64_t job) {
  std::lock_guard lock(mutex_);
  if (const Entry* entry = entries_.Find(job); entry != nullptr) return entry->known;
  return entries_.Put(job, {.known = std::make_shared<Known>()}).known;
}

void Assessor::Keep(const v1::Assessment& assessment, bool is_final) {
  std::lock_guard lock(mutex_);
  Entry* entry = entries_.Find(assessment.job());
  if (entry == nullptr) return;
  entry->newest = assessment;
  entry->is_final = is_final;
}

void Assessor::Decorate(v1::JobSummary& summary) const {
  std::lock_guard lock(mutex_);
  const Entry* entry = entries_.Peek(summary.id());
  if (entry == nullptr || !entry->newest.has_value()) return;
  const v1::Assessment& newest = *entry->newest;
  const bool runs = summary.state() == v1::JOB_STATE_RUNNING;
  // Findings of a running job are no longer true between two attempts or after its end.
  if (!runs && !entry->is_final) return;
  if (runs && newest.has_eta_ms()) summary.set_eta_ms(newest.eta_ms());
  if (newest.findings().empty()) return;
  *summary.mutable_finding() = newest.findings(0);
  int64_t wasted_us = 0;
  for (const v1::Finding& finding : newest.findings()) wasted_us += finding.wasted_device_us();
  summary.set_wasted_device_us(wasted_us);
}

bool Assessor::IsMeasured(uint64_t job) const { return !samples_.Newest(job).empty(); }

bool Assessor::IsFinal(uint64_t job) const {
  std::lock_guard lock(mutex_);
  const Entry* entry = entries_.Peek(job);
  return entry != nullptr && entry->is_final;
}

void Assessor::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  entries_.Erase(job);
}

namespace {

// Without their texts.
void CopyExits(const v1::NodePart& from, v1::NodePart* to) {
  for (const v1::RankExit& exit : from.exits()) {
    v1::RankExit& kept = *to->add_exits();
    kept.set_rank(exit.rank());
    kept.set_exit_code(exit.exit_code());
    kept.set_signal(exit.signal());
    kept.set_stopped_by_us(exit.stopped_by_us());
  }
}

}  // namespace

v1::JobRecord FactsOf(const v1::JobRecord& job) {
  v1::JobRecord facts;
  facts.set_id(job.id());
  facts.set_name(job.name());
  *facts.mutable_spec()->mutable_command() = job.spec().command();
  *facts.mutable_spec()->mutable_shape() = job.spec().shape();
  for (const v1::Notify& notify : job.spec().notify())
    *facts.mutable_spec()->add_notify()->mutable_on() = notify.on();
  for (const v1::Finding& noticed : job.noticed()) {
    v1::Finding& kept = *facts.add_noticed();
    kept.set_code(noticed.code());
    kept.set_attempt(noticed.attempt());
  }
  facts.set_state(job.state());
  facts.set_submitted_ms(job.submitted_ms());
  facts.set_finished_ms(job.finished_ms());
  facts.set_dropped_attempts(job.dropped_attempts());
  facts.set_resolved_device_kind(job.resolved_device_kind());
  for (const v1::Attempt& attempt : job.attempts()) {
    v1::Attempt& kept = *facts.add_attempts();
    kept.set_number(attempt.number());
    kept.set_world_size(attempt.world_size());
    kept.set_resume_step(attempt.resume_step());
    kept.set_started_ms(attempt.started_ms());
    kept.set_running_ms(attempt.running_ms());
    kept.set_stopping_ms(attempt.stopping_ms());
    kept.set_ended_ms(attempt.ended_ms());
    kept.set_stopping(attempt.stopping());
    kept.set_cause(attempt.cause());
    kept.set_reason(attempt.reason());
    if (attempt.has_culprit()) *kept.mutable_culprit() = attempt.culprit();
    for (const v1::NodePart& part : attempt.parts()) {
      v1::NodePart& place = *kept.add_parts();
      place.set_node(part.node());
      place.set_first_rank(part.first_rank());
      place.set_local_world_size(part.local_world_size());
      place.set_device_kind(part.device_kind());
      *place.mutable_device_indexes() = part.device_indexes();
      place.set_failure(part.failure());
      // The rules about its store ask which ranks are gone.
      if (attempt.rendezvous() == v1::RENDEZVOUS_KIND_MUSTER) CopyExits(part, &place);
      if (part.has_versions()) *place.mutable_versions() = part.versions();
    }
  }
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    v1::Checkpoint& kept = *facts.add_checkpoints();
    kept.set_step(checkpoint.step());
    kept.set_attempt(checkpoint.attempt());
    kept.set_state(checkpoint.state());
    kept.set_committed_ms(checkpoint.committed_ms());
  }
  return facts;
}

}  // namespace muster::coordinator
