// A JobService in the test's process that gives prepared answers and remembers what it was asked.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

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
  std::string submit_error;  // a FAILED_PRECONDITION message

  v1::SubmitRequest last_submit() const;
  std::vector<v1::CancelJobsRequest> cancels() const;

 private:
  class Service;
  std::string directory_;
  std::unique_ptr<Service> service_;
};

}  // namespace muster::client
