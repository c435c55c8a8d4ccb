// A job's log streams merged into one, ordered by (attempt, receive time, rank). Between two calls it holds no
// descriptor and at most a few KiB of each stream. The work pool's threads, one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/logs/log_search.h"
#include "coordinator/logs/log_tail.h"
#include "coordinator/stores/log_store.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

class LogMerge {
 public:
  // `search`: for the request's filter; must outlive this. Null: all lines.
  LogMerge(const LogReader& logs, uint64_t job, const v1::StreamLogsRequest& request,
           LogSearch* search = nullptr);

  // The record shows which ranks ran where; call again when it changes.
  void Know(const v1::JobRecord& record);
  // Looks for new streams. UNAVAILABLE: no descriptor was free; call again later.
  absl::Status Discover();
  // True while the place of the last lines is not found yet: call Discover again, after giving
  // others a turn.
  bool IsLooking() const { return tail_ != nullptr; }
  // These streams have more to read; unknown ones are ignored.
  void HaveNews(const std::set<LogKey>& streams);
  // All streams may have more to read.
  void LookAgain();
  // The next available piece; nullopt: nothing for now, or Trouble.
  std::optional<v1::LogRecord> Next();
  // Why the last Next could not read a stream (no free descriptor); nothing was skipped. Otherwise
  // OK.
  const absl::Status& Trouble() const { return trouble_; }
  // Every expected stream has been read to its end.
  bool Complete() const;
  // Stored bytes at the ends of streams that are not complete, which are not records.
  uint64_t UnreadableBytes() const;

 private:
  struct Place {
    uint32_t attempt = 0;
    int64_t time_us = 0;
    uint32_t rank = 0;
    v1::LogStream stream = v1::LOG_STREAM_STDOUT;
    auto operator<=>(const Place&) const = default;
  };
  bool Wants(const LogKey& key) const;
  absl::StatusOr<uint64_t> Start(const LogKey& key) const;
  // The streams that have no cursor yet, and where to begin.
  absl::StatusOr<std::map<LogKey, uint64_t>> NewStreams() const;
  absl::Status FindTail();
  void OpenAll(const std::map<LogKey, uint64_t>& starts);
  // Inserts the stream into the order if it has something to read; false: not for now.
  absl::StatusOr<bool> MakeReady(const LogKey& key);
  // Calls MakeReady for all unread streams.
  void Refill();
  // Takes the first piece in the order. On error, it stays there.
  absl::StatusOr<v1::LogRecord> Take(const LogKey& key);
  bool IsTooOld(const v1::LogRecord& record) const;

  const LogReader& logs_;
  const uint64_t job_;
  const v1::StreamLogsRequest request_;
  LogSearch* const search_;
  std::set<uint32_t> ranks_;
  std::set<std::string> nodes_;
  std::map<LogKey, uint64_t> resume_;                             // the client's positions
  std::map<std::pair<uint32_t, uint32_t>, std::string> node_of_;  // (attempt, rank)
  std::set<LogKey> expected_;
  uint32_t newest_attempt_ = 0;
  std::map<LogKey, std::unique_ptr<LogCursor>> cursors_;
  std::map<Place, LogKey> ready_;
  std::set<LogKey> unread_;  // not in the order, but may have something to read
  absl::Status trouble_;
  std::unique_ptr<LogTail> tail_;  // while the place of the last lines is being looked for
  bool tail_done_ = false;
};

}  // namespace muster::coordinator
