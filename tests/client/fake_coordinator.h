// An in-process JobService that returns prepared answers and records what it was asked.
#pragma once

#include <climits>
#include <functional>
#include <map>
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

  // What Run streams, in order; what StreamLogs streams.
  std::vector<v1::JobUpdate> updates;
  std::vector<v1::LogRecord> logs;
  // After its updates, a Run waits until the job is cancelled, then streams this.
  bool wait_for_cancel = false;
  v1::JobRecord record;
  std::map<std::string, v1::JobRecord> records;  // by the name that is asked for; else `record`
  v1::ListJobsResponse jobs;
  v1::ListNodesResponse nodes;
  uint32_t protocol = 1;
  bool stands_by = false;  // for GetServer only
  std::string leader;
  absl::Status submit_error;     // for Submit only
  bool is_older = false;         // its errors are messages only
  v1::SubmitResponse submitted;  // if it has a name: the answer to Submit
  v1::MetricSummaries metrics;
  v1::WhyResponse why;
  v1::Assessment assessment;  // without a job: UNIMPLEMENTED, as an older coordinator answers
  std::map<std::string, std::string> objects;         // what PushObjects brought, by name
  std::map<std::string, std::string> objects_by_hex;  // what PullObject gives
  int pushes_left = INT_MAX;                          // chunks until PushObjects breaks, once
  std::function<void()> on_pushed;                    // before PushObjects is answered
  bool holds_pushes = false;                          // it is not until the client disconnects
  // If set, answers ListJobs, on gRPC's thread.
  std::function<v1::ListJobsResponse(const v1::ListJobsRequest&)> on_list;
  // If set, answers PullFile, with one chunk.
  std::function<v1::BlobChunk(const v1::PullFileRequest&)> on_pull;
  // Called after a WatchJob has sent the record.
  std::function<void()> on_watch;
  // A StreamLogs stays open after its records until the client disconnects.
  bool follow_for_ever = false;

  v1::SubmitRequest last_submit() const;
  std::vector<v1::CancelJobsRequest> cancels() const;
  std::vector<v1::ListJobsRequest> lists() const;
  v1::RerunJobRequest last_rerun() const;

 private:
  class Service;
  std::string directory_;
  std::unique_ptr<Service> service_;
};

}  // namespace muster::client
