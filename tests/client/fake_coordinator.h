// A JobService in the test's process that gives prepared answers and remembers what it was asked.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class FakeCoordinator {
 public:
  FakeCoordinator();
  ~FakeCoordinator();

  std::string endpoint() const { return "unix:" + directory_ + "/c.sock"; }
  const std::string& directory() const { return directory_; }

  // What Run streams, one after the other; what StreamLogs streams.
  std::vector<v1::JobUpdate> updates;
  std::vector<v1::LogRecord> logs;
  // A Run waits after its updates until the job was cancelled, then streams this.
  bool wait_for_cancel = false;
  v1::JobRecord record;
  v1::ListJobsResponse jobs;
  v1::ListNodesResponse nodes;
  uint32_t protocol = 1;
  absl::Status submit_error;     // of Submit and of nothing else
  bool is_older = false;         // its errors are messages only
  v1::SubmitResponse submitted;  // with a name: the answer to Submit
  v1::MetricSummaries metrics;
  // Answers ListJobs, when it is set, on gRPC's thread.
  std::function<v1::ListJobsResponse(const v1::ListJobsRequest&)> on_list;
  // Called when a WatchJob has sent the record.
  std::function<void()> on_watch;
  // A StreamLogs stays open after its records until the client leaves.
  bool follow_for_ever = false;

  v1::SubmitRequest last_submit() const;
  std::vector<v1::CancelJobsRequest> cancels() const;
  std::vector<v1::ListJobsRequest> lists() const;

 private:
  class Service;
  std::string directory_;
  std::unique_ptr<Service> service_;
};

}  // namespace muster::client
