#include "tests/support/job_story.h"

#include <algorithm>

namespace muster::testing {

using coordinator::Evidence;

JobStory::JobStory(uint32_t ranks, std::string kind, uint32_t devices_each) {
  job_.set_id(7);
  job_.set_name("calm-otter-7");
  job_.set_submitted_ms(kSubmittedMs);
  job_.set_state(v1::JOB_STATE_RUNNING);
  job_.set_resolved_device_kind(kind);
  for (const char* word : {"python", "train.py"}) job_.mutable_spec()->add_command(word);
  v1::Shape& shape = *job_.mutable_spec()->mutable_shape();
  shape.set_processes(ranks);
  shape.mutable_device()->set_kind(kind);
  shape.mutable_device()->set_count_per_rank(devices_each);
  BeginAttempt(0, 10);
}

JobStory& JobStory::At(double seconds) {
  now_s_ = seconds;
  return *this;
}

JobStory& JobStory::Floor(double seconds) {
  floor_ms_ = static_cast<int64_t>(seconds * 1000);
  return *this;
}

JobStory& JobStory::BeginAttempt(double started, double running, int64_t resume_step) {
  const v1::Shape& shape = job_.spec().shape();
  v1::Attempt& attempt = *job_.add_attempts();
  attempt.set_number(static_cast<uint32_t>(job_.attempts_size() - 1));
  attempt.set_world_size(shape.processes());
  attempt.set_resume_step(resume_step);
  attempt.set_started_ms(Wall(started));
  if (running > 0) attempt.set_running_ms(Wall(running));
  v1::NodePart& part = *attempt.add_parts();
  part.set_node("node1");
  part.set_local_world_size(shape.processes());
  part.set_device_kind(shape.device().kind());
  for (uint32_t i = 0; i < shape.processes() * shape.device().count_per_rank(); ++i) {
    part.add_device_indexes(i);
  }
  job_.set_state(v1::JOB_STATE_RUNNING);
  return *this;
}

JobStory& JobStory::Fail(double stopping, double ended) {
  v1::Attempt& failed = attempt();
  failed.set_stopping_ms(Wall(stopping));
  failed.set_ended_ms(Wall(ended));
  failed.set_cause(v1::STOP_CAUSE_RANK_FAILED);
  failed.set_reason("rank 0 on node1 exited with code 1");
  failed.mutable_culprit()->set_node("node1");
  failed.mutable_culprit()->set_exit_code(1);
  job_.set_state(v1::JOB_STATE_RESTARTING);
  return At(ended);
}

JobStory& JobStory::Finish(v1::JobState state, double seconds) {
  job_.set_state(state);
  job_.set_finished_ms(Wall(seconds));
  if (attempt().ended_ms() == 0) {
    attempt().set_ended_ms(Wall(seconds));
    attempt().set_cause(v1::STOP_CAUSE_COMPLETED);
  }
  return At(seconds);
}

v1::MetricBatch JobStory::Batch(uint32_t rank) const {
  v1::MetricBatch batch;
  batch.set_job(job_.id());
  batch.set_attempt(job_.attempts().rbegin()->number());
  batch.set_rank(rank);
  return batch;
}

JobStory& JobStory::Step(int64_t step, const std::map<std::string, double>& times, uint32_t rank) {
  v1::MetricBatch batch = Batch(rank);
  const auto add = [&](const std::string& name, double value) {
    v1::MetricPoint& point = *batch.add_points();
    point.set_name(name);
    point.set_step(step);
    point.set_value(value);
    point.set_time_ms(Wall(now_s_));
  };
  if (times.empty()) add("lr", 0.1);
  for (const auto& [name, value] : times) add("time/" + name, value);
  history_.Take(batch, static_cast<int64_t>(now_s_ * 1000));
  return *this;
}

JobStory& JobStory::Steps(int64_t first, int64_t count, double seconds,
                          const std::map<std::string, double>& times, uint32_t ranks) {
  const double end = now_s_;
  for (int64_t i = 0; i < count; ++i) {
    At(end - seconds * static_cast<double>(count - 1 - i));
    for (uint32_t rank = 0; rank < ranks; ++rank) Step(first + i, times, rank);
  }
  return At(end);
}

JobStory& JobStory::Loss(int64_t step, double value) {
  v1::MetricBatch batch = Batch(0);
  v1::MetricPoint& point = *batch.add_points();
  point.set_name("train_loss");
  point.set_step(step);
  point.set_value(value);
  point.set_time_ms(Wall(now_s_));
  history_.Take(batch, static_cast<int64_t>(now_s_ * 1000));
  return *this;
}

JobStory& JobStory::Total(int64_t steps) {
  v1::MetricBatch batch = Batch(0);
  batch.set_progress_total(static_cast<uint64_t>(steps));
  history_.Take(batch, static_cast<int64_t>(now_s_ * 1000));
  return *this;
}

JobStory& JobStory::Committed(int64_t step, double seconds) {
  v1::Checkpoint& checkpoint = *job_.add_checkpoints();
  checkpoint.set_step(step);
  checkpoint.set_attempt(attempt().number());
  checkpoint.set_state(v1::CHECKPOINT_STATE_COMMITTED);
  checkpoint.set_committed_ms(Wall(seconds));
  return *this;
}

JobStory& JobStory::Meeting(v1::Meeting meeting) {
  meeting_ = meeting;
  return *this;
}

JobStory& JobStory::Measured(double seconds, const std::vector<v1::RankSample>& ranks,
                             const std::vector<v1::DeviceSample>& devices) {
  for (double at = now_s_ - seconds; at <= now_s_; at += 1) {
    v1::SampleBatch batch;
    batch.set_attempt(attempt().number());
    batch.set_node("node1");
    batch.set_time_ms(Wall(at));
    *batch.mutable_ranks() = {ranks.begin(), ranks.end()};
    *batch.mutable_devices() = {devices.begin(), devices.end()};
    batch.set_meeting(meeting_);
    samples_.Take(batch);
  }
  return *this;
}

v1::Assessment JobStory::Look() const {
  Evidence evidence{
      .job = job_,
      .history = history_,
      .samples = samples_,
      .now = {.mono_ms = static_cast<int64_t>(now_s_ * 1000), .wall_ms = Wall(now_s_)},
      .floor_ms = floor_ms_};
  return Assess(evidence);
}

std::vector<std::string> JobStory::Codes() const {
  std::vector<std::string> codes;
  const v1::Assessment assessment = Look();
  for (const v1::Finding& finding : assessment.findings()) codes.push_back(finding.code());
  return codes;
}

const v1::Finding* JobStory::Find(const std::string& code) {
  last_ = Look();
  const auto found = std::find_if(last_.findings().begin(), last_.findings().end(),
                                  [&](const auto& finding) { return finding.code() == code; });
  return found == last_.findings().end() ? nullptr : &*found;
}

v1::RankSample RankUsing(uint32_t rank, double cores, const std::vector<std::string>& open) {
  v1::RankSample sample;
  sample.set_rank(rank);
  sample.set_cpu_cores(static_cast<float>(cores));
  sample.set_processes(1);
  for (const std::string& device : open) sample.add_open_devices(device);
  return sample;
}

v1::RankSample RankHolding(uint32_t rank, uint64_t resident, uint64_t limit) {
  v1::RankSample sample = RankUsing(rank, 1);
  sample.set_resident_bytes(resident);
  sample.set_memory_limit_bytes(limit);
  return sample;
}

v1::DeviceSample DeviceUsing(const std::string& device, double utilization) {
  v1::DeviceSample sample;
  sample.set_device(device);
  sample.set_utilization(static_cast<float>(utilization));
  return sample;
}

}  // namespace muster::testing
