// Following jobs: their logs by offset, across coordinator restarts, and the attached run with its
// Ctrl-C handling.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/follow/log_printer.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;
class Session;

// Streams a job's logs and tracks its position, so that a broken stream resumes where it ended: no
// gap, no repeat.
class LogFollower {
 public:
  // `on_attempt`: called before the first output of each attempt is printed.
  LogFollower(v1::StreamLogsRequest request, LogPrinter* printer,
              std::function<void()> on_attempt = {});
  // Runs until the stream ends. Any thread, one at a time.
  absl::Status Follow(Connection& connection);
  // Increases with every record.
  uint64_t records() const { return records_; }
  // There was something to print.
  bool any() const { return any_; }

 private:
  v1::StreamLogsRequest request_;
  LogPrinter* printer_;
  std::function<void()> on_attempt_;
  int64_t attempt_ = -1;  // the newest attempt that printed something
  std::map<std::tuple<uint32_t, uint32_t, int>, uint64_t> positions_;
  std::atomic<uint64_t> records_{0};
  std::atomic<bool> any_{false};
};

// Runs an attached job until it is over: submits it, prints its output, stops it on Ctrl-C. Returns
// the exit code of jobctl run. Waits for a coordinator that restarts meanwhile.
absl::StatusOr<int> RunAttached(Session& session, const v1::SubmitRequest& request,
                                LogPrinter::Options options);

// Every command that waits for a job that outlives it calls this before it opens the connection.
// Until DetachFrom, Ctrl-C prints that it is unknown whether the job was submitted.
void SubmitInterruptibly(Session& session);
// From now on Ctrl-C prints that job `name` keeps running and how to reattach (`again`: "logs -f",
// "wait"), and exits jobctl with 130.
void DetachFrom(Session& session, const std::string& name, const std::string& again);

// Shows the output of an existing job, until its end if followed. Returns 0, 100 or 103.
absl::StatusOr<int> FollowJob(Session& session, const v1::StreamLogsRequest& request,
                              LogPrinter::Options options, bool propagate);
// Shows all output of a new job until its end; Ctrl-C detaches. `folds`: equal lines of several
// ranks are shown as one, on a terminal.
absl::StatusOr<int> FollowNewJob(Session& session, const v1::SubmitResponse& submitted,
                                 bool propagate, bool folds);

// Reconnects after the coordinator went away, for at most a minute. Returns `lost` if it stays
// away.
absl::StatusOr<Connection*> Reconnect(Session& session, const absl::Status& lost);

}  // namespace muster::client
