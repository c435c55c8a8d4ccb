// Pending requests for ranks' records: who asked, and which ranks have not answered yet. A request is
// over when all have, when its time is up, or when its client leaves. Any thread; does not survive a
// restart of the coordinator.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/rpc/sink.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

class Diagnoses {
 public:
  using Stream = Sink<v1::DiagnoseJobUpdate>;
  using Time = std::chrono::steady_clock::time_point;
  // At once, in all and of one principal. A request counts until its stream is gone: records that
  // its client has not read take memory.
  static constexpr size_t kStreamsMax = 32;
  static constexpr size_t kStreamsOfOneMax = 2;

  // Sends the attempt to the stream; returns the request's number, never 0. RESOURCE_EXHAUSTED
  // (JC1308): there are too many.
  absl::StatusOr<uint64_t> Open(v1::DiagnosedAttempt attempt, const std::string& principal,
                                Time until, std::shared_ptr<Stream> stream);
  // A rank's answer, through its worker. Ignored if nothing is waiting for it. False: the rank does
  // not run on that node.
  bool Take(const std::string& node, v1::RankDiagnosis diagnosis);
  // Ends the request if it is still pending.
  void Close(uint64_t number, const absl::Status& status);
  // True: call Expire soon, and again as long as it returns true. One caller at a time gets it.
  bool BeginExpiring();
  // Ends the requests whose time is up. False: none is left.
  bool Expire(Time now);

 private:
  struct Request {
    v1::DiagnosedAttempt attempt;
    Time until;
    std::shared_ptr<Stream> stream;
    std::set<uint32_t> answered;
  };

  absl::Status TakeSeat(const std::string& principal);
  // The stream is over.
  void Leave(uint64_t number, const std::string& principal);

  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Request> requests_;
  std::map<std::string, size_t> streams_;  // by principal
  size_t streams_in_all_ = 0;
  uint64_t last_number_ = 0;
  bool is_expiring_ = false;
};

}  // namespace muster::coordinator
