// The log in etcd: entries that the leader adds and every coordinator reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/term.h"
#include "coordinator/election/pieces.h"
#include "coordinator/etcd/client.h"
#include "coordinator/stores/commit_log.h"
#include "muster/v1/head.pb.h"

namespace muster::coordinator::heads {

inline constexpr uint32_t kLogFormat = 1;
// etcd refuses a request of 1.5 MiB.
inline constexpr size_t kPieceBytesMost = 1 << 20;
// The largest is a snapshot of all live jobs, whose bytes Settings bounds below that. SQLite takes 2 GiB.
// limit: several coordinators: one transaction's changes; the coordinator steps down
inline constexpr size_t kEntryBytesMost = 1 << 30;

std::string LogKey(const etcd::Client& client, uint64_t number);

// The number of the last piece that was ever added, linearizable.
absl::StatusOr<uint64_t> EndOfLog(etcd::Client& client, int64_t within_ms);

// Collects pieces into entries. One thread.
class PieceReader {
 public:
  struct Entry {
    uint64_t position = 0;
    std::string changes;
  };
  // Begins after an entry.
  explicit PieceReader(uint64_t position) : number_(position) {}
  // Reads what follows. A page of at most a few dozen entries; empty and !more: nothing follows for now.
  // `linearizable`: everything that any leader was told is durable. OUT_OF_RANGE: what follows was removed, after
  // a snapshot. DATA_LOSS: a piece cannot be read.
  struct Page {
    std::vector<Entry> entries;
    bool more = false;
  };
  absl::StatusOr<Page> Read(etcd::Client& client, bool linearizable, int64_t within_ms);
  // Of the last piece that was read, also if its entry is not whole.
  uint64_t number() const { return number_; }

 private:
  absl::Status Add(const etcdserverpb::KeyValue& pair, Page& page);

  uint64_t number_;
  election::Gathering gathering_;
};

// The leader's end.
class EtcdLog final : public CommitLog {
 public:
  struct Options {
    int64_t term_revision = 0;   // create-revision of the leader's key
    uint64_t last_number = 0;    // of the last piece in the log
    const Term* term = nullptr;  // nothing is added once it is over
    // This coordinator can no longer lead. Called once, from the thread of the failed Append.
    std::function<void(const absl::Status&)> lost;
  };
  EtcdLog(etcd::Client& client, Options options);

  absl::StatusOr<uint64_t> Append(std::string_view changes) override;
  void FailedHere(const absl::Status& why) override;
  // What it has added. Any thread.
  uint64_t Number() const { return number_; }
  uint64_t Bytes() const { return bytes_; }

 private:
  absl::StatusOr<bool> IsThere(const std::string& key, const std::string& value, int64_t within_ms);
  absl::Status AppendPiece(const v1::CommitPiece& piece);
  absl::Status Lost(const absl::Status& why);

  etcd::Client& client_;
  const Options options_;
  const uint64_t writer_;
  // Changed by the writer whose turn it is.
  std::atomic<uint64_t> number_;
  std::atomic<uint64_t> bytes_ = 0;
  std::mutex mutex_;  // guards what follows
  absl::Status failure_;
};

}  // namespace muster::coordinator::heads
