// Requests for the ranks' records that are under way: who asked, and who has not answered yet. Any
// thread; nothing of it outlives the coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "coordinator/rpc/sink.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

class Diagnoses {
 public:
  using Stream = Sink<v1::DiagnoseJobUpdate>;

  // Tells the stream about the attempt; the request's number, never 0.
  uint64_t Open(v1::DiagnosedAttempt attempt, std::shared_ptr<Stream> stream);
  // A rank's answer, through its worker. Passed over when nobody waits for it.
  void Take(const std::string& node, v1::RankDiagnosis diagnosis);
  // Ends the request if it still waits.
  void Close(uint64_t number, const absl::Status& status);

 private:
  struct Request {
    v1::DiagnosedAttempt attempt;
    std::shared_ptr<Stream> stream;
    std::set<uint32_t> answered;
  };

  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Request> requests_;
  uint64_t last_number_ = 0;
};

}  // namespace muster::coordinator
