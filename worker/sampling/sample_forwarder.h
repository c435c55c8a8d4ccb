// Schedules the sampling of each attempt, and queues samples for sending. An attempt is sampled on
// its own thread once a second while it runs, or less often if that would take more than a fiftieth
// of a core. Without attempts no thread wakes up. Samples may be lost: only the newest wait for the
// coordinator, and none is sent twice. I/O thread; never blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "muster/v1/worker_service.pb.h"
#include "worker/base/job_threads.h"
#include "worker/sampling/attempt_sampler.h"
#include "worker/sampling/step_clock.h"

namespace muster::worker {

class SampleForwarder {
 public:
  static constexpr int64_t kEveryMs = 1'000;
  static constexpr int64_t kShareOfCore = 50;  // sampling may take 1/50 of a core
  // limit: samples: batches that wait on a node; the oldest is dropped
  static constexpr size_t kWaitingMax = 16;  // batches

  struct Callbacks {
    std::function<void(std::function<void()>)> in_loop;  // runs a function on the I/O thread
    std::function<bool()> can_send;
    std::function<void(v1::SampleBatch)> send;
    // A rank of this attempt has loaded a framework. On the I/O thread, once.
    std::function<void(const AttemptKey&, const FrameworkVersions&)> framework;
  };

  SampleForwarder(std::string node, JobThreads* threads, Callbacks callbacks);

  // `master_port`: as for AttemptSampler.
  void Open(const AttemptKey& key, const v1::NodePart& part, uint32_t master_port,
            const std::string& account_path = {},
            std::function<void(v1::RankSample*)> look_at_store = nullptr);
  void RankStarted(const AttemptKey& key, const SampleOrder::Process& process);
  // A rank's trainer has reached this step.
  void NoteStep(const AttemptKey& key, uint32_t rank, int64_t step, int64_t now_ms);
  void Close(const AttemptKey& key);

  // Whether there is or will be anything to send.
  bool IsNeeded() const { return !attempts_.empty() || !waiting_.empty(); }
  // When OnTime is due; empty without attempts.
  std::optional<int64_t> NextMs() const;
  void OnTime(int64_t now_ms);
  void Pump();

 private:
  static constexpr int64_t kNotStarted = INT64_MAX;
  struct Watched {
    std::shared_ptr<AttemptSampler> sampler;  // used by the running sample
    std::map<uint32_t, StepClock> steps;      // by rank
    SampleOrder order;                        // for the next sample
    int64_t next_ms = kNotStarted;
    bool is_sampling = false;
  };
  void OnSampled(const AttemptKey& key, std::optional<v1::SampleBatch> batch, int64_t began_ms,
                 int64_t used_us);

  const std::string node_;
  JobThreads* const threads_;
  const Callbacks callbacks_;
  const std::shared_ptr<DeviceMeters> meters_ = std::make_shared<DeviceMeters>();
  std::map<AttemptKey, Watched> attempts_;
  std::deque<v1::SampleBatch> waiting_;  // the oldest in front
};

}  // namespace muster::worker
