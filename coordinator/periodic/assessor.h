// Reads a job's new metrics and samples and lets the rules (findings/) judge it. Remembers a
// summary of both per job, so that each look reads only what is new, and the newest assessment for
// the rows of `jobctl ls`. After its first look at a job it watches the job's samples. Assess reads
// from disk: call it on a work pool's thread. Any thread otherwise.
//
// Nothing here is durable: after a restart the next look reads the job's metrics once from the
// beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/lru_map.h"
#include "coordinator/findings/history.h"
#include "coordinator/findings/samples.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/sample_store.h"
#include "muster/v1/finding.pb.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

class Assessor {
 public:
  // limit: findings: jobs that the assessor remembers; the least recently assessed is forgotten
  static constexpr size_t kJobsMax = 4'096;  // remembered; the least recently assessed is forgotten
  // limit: findings: samples of a job between two looks; the oldest go
  static constexpr size_t kWaitingMax =
      4'096;  // samples of a job between two looks; older ones are dropped

  // The stores outlive this.
  Assessor(const MetricStore& metrics, SampleStore& samples, int64_t floor_ms)
      : metrics_(metrics), samples_(samples), floor_ms_(floor_ms) {}

  // UNAVAILABLE: no descriptor is free; ask again later.
  absl::StatusOr<v1::Assessment> Assess(const v1::JobRecord& job, common::Now now);
  // Adds the worst finding, the waste and the ETA of the job's newest assessment, if they still apply.
  void Decorate(v1::JobSummary& summary) const;
  bool IsMeasured(uint64_t job) const;
  int64_t FloorMs() const { return floor_ms_; }
  // Whether the job was assessed after it ended.
  bool IsFinal(uint64_t job) const;
  // The job was removed.
  void Forget(uint64_t job);

 private:
  // Samples between two looks.
  struct Waiting {
    std::mutex mutex;  // guards what follows
    std::deque<v1::SampleBatch> batches;
  };
  struct Known {
    std::mutex mutex;  // guards what follows: one look at a time
    std::unique_ptr<MetricReader> reader;
    JobHistory history;
    SampleHistory samples;
    std::shared_ptr<Waiting> waiting = std::make_shared<Waiting>();
    WatchToken watch;
  };
  struct Entry {
    std::shared_ptr<Known> known;
    std::optional<v1::Assessment> newest;
    bool is_final = false;
  };

  std::shared_ptr<Known> Use(uint64_t job);
  void Keep(const v1::Assessment& assessment, bool is_final);
  absl::Status CatchUp(const v1::JobRecord& job, common::Now now, Known& known) const;
  void TakeSamples(const v1::JobRecord& job, common::Now now, Known& known) const;
  void ReadSamples(const v1::JobRecord& job, common::Now now, SampleHistory& samples) const;

  const MetricStore& metrics_;
  SampleStore& samples_;
  const int64_t floor_ms_;

  mutable std::mutex mutex_;  // guards what follows
  common::LruMap<uint64_t, Entry> entries_{kJobsMax};
};

// The parts of a record that the rules need, without those that can be large: environment, exits,
// checkpoints' files.
v1::JobRecord FactsOf(const v1::JobRecord& job);

}  // namespace muster::coordinator
