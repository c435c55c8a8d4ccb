// Which batches of one attempt are stored: the newest seq of each source of each rank. Shared by
// the implementations of MetricStore. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

class MetricSources {
 public:
  // OK, or why it cannot be the next batch of its source (upload_checks.h).
  absl::Status CheckNext(const v1::MetricBatch& batch) const;
  // 0: none.
  uint64_t Newest(const v1::MetricBatch& batch) const;
  bool IsKnown(const v1::MetricBatch& batch) const;
  // The batch is stored.
  void Take(const v1::MetricBatch& batch);
  // The batch is stored behind damage: batches before it may be missing, and their sender may still send
  // them.
  void TakeBehindDamage(const v1::MetricBatch& batch);

 private:
  using Key = std::pair<uint32_t, std::string>;  // rank, source
  std::map<Key, uint64_t> newest_;
  std::map<Key, std::set<uint64_t>> behind_damage_;  // all above the newest
};

// Acknowledges all batches of its source up to `durable_seq`.
v1::MetricAck AckFor(const v1::MetricBatch& batch, uint64_t durable_seq);
v1::MetricAck RefusalOf(const v1::MetricBatch& batch);

}  // namespace muster::coordinator
