// Takes metric batches of all ranks on this node and sends them to the coordinator, exactly once by
// (source, seq). I/O thread. Never blocks; knows nothing of gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/metric_spool.h"
#include "worker/paths.h"

namespace muster::worker {

class MetricForwarder {
 public:
  struct Doors {
    std::function<bool()> can_send;
    std::function<void(v1::MetricBatch)> send;
    std::function<void(const AttemptKey&)> drained;  // after Ended: the coordinator has everything
    std::function<void(const std::string&)> note;
  };

  MetricForwarder(Paths paths, Doors doors);

  void Add(const AttemptKey& key, uint32_t first_rank, uint32_t ranks);
  // Survives a crash of this process afterwards. Job, attempt and rank are filled in; a batch whose
  // seq is known already is accepted and ignored.
  absl::Status Append(const AttemptKey& key, uint32_t rank, v1::MetricBatch batch);
  uint64_t LastSeq(const AttemptKey& key, uint32_t rank, const std::string& source) const;
  // Nothing follows.
  void Ended(const AttemptKey& key);
  void Remove(const AttemptKey& key);

  void Restart();
  void OnAck(const v1::MetricAck& ack);
  void Pump();

 private:
  using RankKey = std::pair<AttemptKey, uint32_t>;
  void CheckDrained(const AttemptKey& key);

  const Paths paths_;
  const Doors doors_;
  std::map<RankKey, MetricSpool> spools_;
  std::set<AttemptKey> ended_;
  RankKey turn_;
};

}  // namespace muster::worker
