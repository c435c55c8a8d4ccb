// The metric batches of one rank, on disk until the coordinator has them: appended before the
// trainer's acknowledgement, resent after a reconnection, exactly once by (source, seq). One
// thread. File: records of size (4 bytes), CRC-32C (4 bytes), serialized MetricBatch; a truncated
// last record is dropped on open. The rank can access the file: unreadable data is dropped and
// reported, and the file may be closed and reopened at any time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

class MetricSpool {
 public:
  // `path`: the batches; `path` + ".acked": what the coordinator has, per source. A disk error may be
  // transient; the file is unchanged.
  static absl::StatusOr<MetricSpool> Open(const std::string& path);

  // Highest seq of this source that is stored here or at the coordinator; 0: none.
  uint64_t LastSeq(const std::string& source) const;
  // LastSeq of every source.
  std::map<std::string, uint64_t> LastSeqs() const;
  // Afterwards the batch survives a crash of this process. `batch.seq` must be higher than LastSeq.
  // RESOURCE_EXHAUSTED: the disk or the file is full, UNAVAILABLE: no descriptor is free; nothing
  // was stored, and the same batch may be appended again later.
  absl::Status Append(const v1::MetricBatch& batch);

  // The next batch to send, or nullopt; `encoded` has it as it is in the file. A disk error changes nothing,
  // because it may be transient.
  absl::StatusOr<std::optional<v1::MetricBatch>> Next();
  bool HasNext() const { return read_at_ < size_; }
  // Resends whatever is unacknowledged.
  void Rewind();
  void OnAck(const std::string& source, uint64_t durable_seq);
  // Gives up everything that is not delivered yet.
  void DropAll();
  bool Drained() const { return acked_at_ == size_; }
  size_t InFlight() const { return in_flight_.size(); }
  // Closes the file until the next use.
  void Close() { file_.Reset(); }
  // Unreadable bytes that were dropped since the last call.
  uint64_t TakeDamage() { return std::exchange(damage_bytes_, 0); }

 private:
  struct Sent {
    std::string source;
    uint64_t seq = 0;
    uint64_t end = 0;  // file offset after it
  };
  explicit MetricSpool(std::string path) : path_(std::move(path)) {}
  absl::Status OpenFile();
  absl::Status LoadAcked();
  absl::Status SaveAcked();
  void MaybeCompact();
  void GiveSpaceBack();
  struct Window {
    size_t wanted = 1 << 20;  // read-ahead
    uint64_t at = 0;
    std::string bytes;
  };
  // Fewer at the end of the file.
  absl::StatusOr<std::string_view> BytesAt(uint64_t at, size_t size, Window* window) const;
  struct Record {
    v1::MetricBatch batch;
    std::string_view bytes;  // in the window, until it moves
    uint64_t end = 0;        // file offset after it
  };
  // The record at `at`; false if there is none or it is damaged.
  absl::StatusOr<bool> ReadAt(uint64_t at, Record* record, Window* window) const;

  std::string path_;
  common::UniqueFd file_;
  uint64_t size_ = 0;
  uint64_t read_at_ = 0;
  uint64_t acked_at_ = 0;
  uint64_t damage_bytes_ = 0;
  bool acked_changed_ = false;  // since path + ".acked" was written
  bool has_acked_file_ = false;
  std::deque<Sent> in_flight_;
  std::map<std::string, uint64_t> last_;   // by source
  std::map<std::string, uint64_t> acked_;  // by source
};

}  // namespace muster::worker
