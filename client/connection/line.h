// One coordinator's gRPC objects, and the wording of its errors. Immutable once it is dialed; any
// thread. Only files of this room include it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "identity/credential_files.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::client {

// JC1301.
absl::Status Unreachable(const std::string& endpoint, const std::string& reason);
absl::Status FromGrpc(const grpc::Status& status);

struct Line {
  std::string endpoint;
  bool is_encrypted = false;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::JobService::Stub> stub;
  v1::GetServerResponse server;  // its answer when it was found to lead; protocol 0: not yet

  // Keeps the coordinator's own errors; rewords gRPC's, which have no code.
  absl::Status Convert(const grpc::Status& status) const;
  // The same for a call whose deadline was `limit_ms`.
  absl::Status ConvertUnary(const grpc::Status& status, int64_t limit_ms) const;
};

// Connects with the first call. The certificate of whatever listens at `endpoint` is checked for this
// line alone. `credentials`: null for one that is not encrypted.
std::shared_ptr<Line> Dial(const std::string& endpoint, const identity::Credentials* credentials);
// Asks it who it is. `context`: for the caller to cancel.
absl::StatusOr<v1::GetServerResponse> AskWho(const Line& line, int64_t limit_ms,
                                             grpc::ClientContext* context);

}  // namespace muster::client
