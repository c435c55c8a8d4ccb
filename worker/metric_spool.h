// The metric batches of one rank, on disk until the coordinator has them: appended before the
// trainer's acknowledgement, sent again after a reconnection, exactly once by (source, seq). One
// thread. File: records of size (4 bytes), CRC-32C (4 bytes), serialised MetricBatch; a cut last
// record is dropped on open.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

class MetricSpool {
 public:
  // `path`: the batches; `path` + ".acked": per source, what the coordinator has.
  static absl::StatusOr<MetricSpool> Open(const std::string& path);

  // Highest seq of this source that is safe here or at the coordinator; 0: none.
  uint64_t LastSeq(const std::string& source) const;
  // Survives a crash of this process afterwards. `batch.seq` must be higher than LastSeq.
  absl::Status Append(const v1::MetricBatch& batch);

  // The next batch to send, or nullopt.
  std::optional<v1::MetricBatch> Next();
  bool HasNext() const { return read_at_ < size_; }
  // Sends whatever is unacknowledged again.
  void Rewind();
  void OnAck(const std::string& source, uint64_t durable_seq);
  // The coordinator will never take these.
  void DropAll();
  bool Drained() const { return acked_at_ == size_; }
  size_t InFlight() const { return in_flight_.size(); }

 private:
  struct Sent {
    std::string source;
    uint64_t seq = 0;
    uint64_t end = 0;  // file offset behind it
  };
  MetricSpool(std::string path, common::UniqueFd file);
  void LoadAcked();
  void SaveAcked();
  void MaybeCompact();
  // The record at `at`; false when there is none or it is cut.
  bool ReadAt(uint64_t at, v1::MetricBatch* batch, uint64_t* end) const;

  std::string path_;
  common::UniqueFd file_;
  uint64_t size_ = 0;
  uint64_t read_at_ = 0;
  uint64_t acked_at_ = 0;
  std::deque<Sent> in_flight_;
  std::map<std::string, uint64_t> last_;   // by source
  std::map<std::string, uint64_t> acked_;  // by source
};

}  // namespace muster::worker
