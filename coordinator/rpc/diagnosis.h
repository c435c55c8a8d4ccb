// Pending requests for ranks' records: who asked, and which ranks have not answered yet. Any
// thread; does not survive a restart of the coordinator.
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

  // Sends the attempt to the stream; returns the request's number, never 0.
  uint64_t Open(v1::DiagnosedAttempt attempt, std::shared_ptr<Stream> stream);
  // A rank's answer, through its worker. Ignored if nothing is waiting for it. False: the rank does
  // not run on that node.
  bool Take(const std::string& node, v1::RankDiagnosis diagnosis);
  // Ends the request if it is still pending.
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
