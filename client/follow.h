// Following jobs: their logs by offset, across restarts of the coordinator, and the attached run
// with its Ctrl-C.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/log_printer.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;
class Session;

// Streams a job's logs and remembers how far it came, so that a broken stream goes on where it
// ended: no gap, no repeat.
class LogFollower {
 public:
  LogFollower(v1::StreamLogsRequest request, LogPrinter* printer);
  // Until the stream ends. Any thread, one at a time.
  absl::Status Follow(Connection& connection);
  // Grows with every record.
  uint64_t records() const { return records_; }

 private:
  v1::StreamLogsRequest request_;
  LogPrinter* printer_;
  std::map<std::tuple<uint32_t, uint32_t, int>, uint64_t> positions_;
  std::atomic<uint64_t> records_{0};
};

// Runs an attached job until it is over: submits, prints its output, stops it on Ctrl-C. Returns
// what jobctl run returns. A coordinator that restarts meanwhile is waited for.
absl::StatusOr<int> RunAttached(Session& session, const v1::SubmitRequest& request,
                                LogPrinter::Options options);

// Follows a job that is already there (`submit --follow`, `logs -f`): Ctrl-C only detaches. Returns
// 0, 100, 103 or 130.
absl::StatusOr<int> FollowJob(Session& session, const v1::StreamLogsRequest& request,
                              LogPrinter::Options options, bool propagate);

// Reconnects after the coordinator went away, for at most a minute. `lost` is returned when it
// stays away.
absl::StatusOr<Connection*> Reconnect(Session& session, const absl::Status& lost);

}  // namespace muster::client
