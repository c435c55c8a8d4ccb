// Builds the evidence that rules and ledgers look at, one line per fact. Times are seconds since
// the job's submission.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/findings/evidence.h"
#include "coordinator/findings/rules.h"

namespace muster::testing {

class JobStory {
 public:
  static constexpr int64_t kSubmittedMs = 1'700'000'000'000;

  // A running first attempt of `ranks` ranks with `devices_each` devices, from second 10 on.
  explicit JobStory(uint32_t ranks = 2, std::string kind = "cpu", uint32_t devices_each = 1);

  v1::JobRecord& job() { return job_; }
  v1::Attempt& attempt() { return *job_.mutable_attempts(job_.attempts_size() - 1); }
  coordinator::JobHistory& history() { return history_; }

  JobStory& At(double seconds);  // the moment of the look, and of what is told next
  JobStory& Floor(double seconds);
  JobStory& BeginAttempt(double started, double running, int64_t resume_step = -1);
  // The newest attempt fails: rank 0 of it exits with 1.
  JobStory& Fail(double stopping, double ended);
  JobStory& Finish(v1::JobState state, double seconds);
  // A step with its time/… metrics, on `rank`, now. Empty names: only the step and its loss.
  JobStory& Step(int64_t step, const std::map<std::string, double>& times = {}, uint32_t rank = 0);
  // `count` steps of `seconds` each from `first`, on all `ranks`, ending `At`.
  JobStory& Steps(int64_t first, int64_t count, double seconds,
                  const std::map<std::string, double>& times, uint32_t ranks = 1);
  JobStory& Loss(int64_t step, double value);
  JobStory& Total(int64_t steps);
  JobStory& Committed(int64_t step, double seconds);
  // The same sample every second, for `seconds` up to now.
  JobStory& Measured(double seconds, const std::vector<v1::RankSample>& ranks,
                     const std::vector<v1::DeviceSample>& devices = {});
  // What the next samples tell of whether the ranks have met.
  JobStory& Meeting(v1::Meeting meeting);

  v1::Assessment Look() const;
  // "code: sentence", the worst first.
  std::vector<std::string> Codes() const;
  // Null: it is silent.
  const v1::Finding* Find(const std::string& code);

 private:
  int64_t Wall(double seconds) const { return kSubmittedMs + static_cast<int64_t>(seconds * 1000); }
  v1::MetricBatch Batch(uint32_t rank) const;

  v1::JobRecord job_;
  coordinator::JobHistory history_;
  coordinator::SampleHistory samples_;
  v1::Meeting meeting_ = v1::MEETING_UNSPECIFIED;
  double now_s_ = 10;
  int64_t floor_ms_ = 60'000;
  v1::Assessment last_;
};

v1::RankSample RankUsing(uint32_t rank, double cores, const std::vector<std::string>& open = {});
v1::RankSample RankHolding(uint32_t rank, uint64_t resident, uint64_t limit);
v1::DeviceSample DeviceUsing(const std::string& device, double utilization);

}  // namespace muster::testing
