// Samples one attempt on this node: its ranks' processes and the devices that it holds. Runs on the
// attempt's own thread (Work::kSample): if reading /proc or querying a driver blocks, only this
// attempt's samples wait. One call at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "muster/v1/sample.pb.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"
#include "worker/sampling/device_meter.h"
#include "worker/sampling/framework_probe.h"
#include "worker/sampling/rank_meeting.h"
#include "worker/sampling/rank_processes.h"

namespace muster::worker {

// This node's meters, opened when a job first holds a device of their kind. Any thread.
class DeviceMeters {
 public:
  // Null if the kind cannot be measured here.
  std::shared_ptr<DeviceMeter> Get(std::string_view kind);

 private:
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::shared_ptr<DeviceMeter>, std::less<>> meters_;
};

// The last report of a rank's trainers about their steps.
struct RankStep {
  int64_t step = 0;
  float step_ms = 0;  // 0: not known
};

// Facts that have become known since the last sample.
struct SampleOrder {
  struct Process {
    uint32_t rank = 0;
    pid_t pid = 0;
    uint64_t start_ticks = 0;
  };
  std::vector<Process> started;
  std::map<uint32_t, RankStep> steps;  // by rank
};

class AttemptSampler {
 public:
  // At most this many ranks of one attempt are measured on a node.
  // limit: samples: measured ranks of an attempt on a node; others are not measured
  static constexpr uint32_t kRanksMax = 2'048;

  // `master_port`: of an attempt with several ranks, otherwise 0. `account_path`: the record of its account.
  AttemptSampler(const AttemptKey& key, std::string node, const v1::NodePart& part,
                 uint32_t master_port, std::string account_path,
                 std::shared_ptr<DeviceMeters> meters, ProcessFiles files = ProcessFiles());

  // Adds to each rank's sample what it does at the attempt's store; not called for attempts without one.
  void LookAtStore(std::function<void(v1::RankSample*)> look) { store_ = std::move(look); }

  // Empty if there is nothing to report yet.
  std::optional<v1::SampleBatch> Take(const SampleOrder& order, const common::Now& now);
  // Returned once, when a rank was first seen to have loaded a framework.
  std::optional<FrameworkVersions> TakeFramework() { return std::exchange(framework_, {}); }

 private:
  // Reading a process's map costs milliseconds, so only some processes are probed, in fewer and
  // fewer samples.
  // limit: samples: processes whose map is read for framework versions; of others they stay unknown
  static constexpr size_t kProbedMax = 16;
  static constexpr uint32_t kLastProbe = 1'024;  // samples after the start
  void MaybeProbe();

  const AttemptKey key_;
  const std::string node_;
  const v1::NodePart part_;
  const std::string account_path_;
  const std::shared_ptr<DeviceMeters> meters_;
  std::shared_ptr<DeviceMeter> meter_;
  RankProcesses processes_;
  std::optional<RankMeeting> meeting_;
  std::function<void(v1::RankSample*)> store_;
  std::optional<FrameworkVersions> framework_;
  uint32_t samples_ = 0;
  uint32_t next_probe_ = 2;  // by number of the sample: doubles; 0: no more
  bool is_open_ = false;
  int64_t taken_ms_ = 0;
};

}  // namespace muster::worker
