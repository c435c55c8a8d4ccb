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
  // Something was there to print.
  bool any() const { return any_; }

 private:
  v1::StreamLogsRequest request_;
  LogPrinter* printer_;
  std::map<std::tuple<uint32_t, uint32_t, int>, uint64_t> positions_;
  std::atomic<uint64_t> records_{0};
  std::atomic<bool> any_{false};
};

// Runs an attached job until it is over: submits, prints its output, stops it on Ctrl-C. Returns
// what jobctl run returns. A coordinator that restarts meanwhile is waited for.
absl::StatusOr<int> RunAttached(Session& session, const v1::SubmitRequest& request,
                                LogPrinter::Options options);

// Before the connection is opened, by every command that waits for a job which goes on without it.
// Until DetachFrom Ctrl-C says that it is not known whether the job was submitted.
void SubmitInterruptibly(Session& session);
// From now on Ctrl-C says that job `name` goes on and how to come back (`again`: "logs -f",
// "wait"), and ends jobctl with 130.
void DetachFrom(Session& session, const std::string& name, const std::string& again);

// Shows the output of a job that is already there, until its end when it is followed. Returns 0,
// 100 or 103.
absl::StatusOr<int> FollowJob(Session& session, const v1::StreamLogsRequest& request,
                              LogPrinter::Options options, bool propagate);
// All output of a new job until its end; Ctrl-C detaches.
absl::StatusOr<int> FollowNewJob(Session& session, const v1::SubmitResponse& submitted,
                                 bool propagate);

// Reconnects after the coordinator went away, for at most a minute. `lost` is returned when it
// stays away.
absl::StatusOr<Connection*> Reconnect(Session& session, const absl::Status& lost);

}  // namespace muster::client
