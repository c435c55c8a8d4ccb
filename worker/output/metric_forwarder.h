// Takes metric batches from all ranks on this node and sends them to the coordinator, exactly once
// by (source, seq). I/O thread. Never blocks; knows nothing of gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/open_files.h"
#include "worker/base/paths.h"
#include "worker/output/disk_trouble.h"
#include "worker/output/metric_spool.h"

namespace muster::worker {

class MetricForwarder {
 public:
  struct Callbacks {
    std::function<bool()> can_send;
    std::function<void(v1::MetricBatch)> send;
    std::function<void(const AttemptKey&)> drained;  // after Ended: the coordinator has everything
    std::function<void(const std::string&)> note;
  };

  // `open_max`: how many files may be open at a time.
  MetricForwarder(Paths paths, Callbacks callbacks, size_t open_max = 1'024);

  void Add(const AttemptKey& key, uint32_t first_rank, uint32_t ranks);
  // Afterwards the batch survives a crash of this process. Fills in job, attempt and rank; a batch
  // whose seq is already known is accepted and ignored.
  absl::Status Append(const AttemptKey& key, uint32_t rank, v1::MetricBatch batch);
  uint64_t LastSeq(const AttemptKey& key, uint32_t rank, const std::string& source) const;
  // For every source of the attempt: the highest seq that is safely stored, and its rank.
  std::map<std::string, std::pair<uint64_t, uint32_t>> Known(const AttemptKey& key) const;
  // No more batches will follow.
  void Ended(const AttemptKey& key);
  void Remove(const AttemptKey& key);

  void Restart();
  void OnAck(const v1::MetricAck& ack);
  // Sends what may be sent. Returns when to call it again, or nullopt.
  std::optional<int64_t> Pump(int64_t now_ms);

 private:
  using RankKey = std::pair<AttemptKey, uint32_t>;
  void CheckDrained(const AttemptKey& key);
  // False: it cannot be opened yet, or will never be.
  bool OpenSpool(const RankKey& rank);
  // True if no file of the attempt holds batches that are still to be read.
  bool IsNothingMissing(const AttemptKey& key) const;
  void OpenMissing();
  std::optional<v1::MetricBatch> Next(const RankKey& rank, MetricSpool& spool);
  static v1::MetricBatch UploadOf(const RankKey& rank, v1::MetricBatch batch);
  // After a failure to read: retries later, or gives up the batches in the file.
  void WaitOrDrop(const RankKey& rank, MetricSpool& spool, const absl::Status& failure);
  // After the spool was used: its file is now the most recently used; reports what it lost.
  void Used(const RankKey& rank, MetricSpool& spool);

  const Paths paths_;
  const Callbacks callbacks_;
  std::map<RankKey, MetricSpool> spools_;
  std::set<AttemptKey> ended_;
  // For ranks whose file cannot be opened or read. Those without a spool are in `missing_`.
  std::map<RankKey, DiskTrouble> troubles_;
  std::set<RankKey> missing_;
  int64_t now_ms_ = 0;  // at the last Pump
  RankKey turn_;
  OpenFiles open_files_;
};

}  // namespace muster::worker
