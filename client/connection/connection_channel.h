// The gRPC objects of a Connection, and how each kind of call is made with them. Only connection.cc
// and connection_calls.cc use it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "client/connection/connection.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::client {

// JC1301.
absl::Status Unreachable(const std::string& endpoint, const std::string& reason);
absl::Status FromGrpc(const grpc::Status& status);

struct Connection::Channel {
  std::string endpoint;
  int64_t timeout_ms = 0;
  bool is_encrypted = false;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::JobService::Stub> stub;
  v1::GetServerResponse server;

  std::mutex mutex;  // guards the two below
  std::set<grpc::ClientContext*> streams;
  bool cancelled = false;

  std::unique_ptr<grpc::ClientContext> attend_context;
  std::unique_ptr<grpc::ClientReader<v1::AttendResponse>> attend;

  static std::chrono::system_clock::time_point After(int64_t milliseconds) {
    return std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
  }
  // Keeps the coordinator's own errors; rewords gRPC's, which have no code.
  absl::Status Convert(const grpc::Status& status) const;

  template <typename Request, typename Response>
  absl::StatusOr<Response> Unary(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&,
                                                                              Response*),
                                 const Request& request, int64_t limit_ms) {
    grpc::ClientContext context;
    context.set_deadline(After(limit_ms));
    Response response;
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
        common::CodeOf(FromGrpc(status)).empty()) {
      return Unreachable(endpoint, common::StrCat("no answer within ", limit_ms / 1000.0, " s"));
    }
    RETURN_IF_ERROR(Convert(status));
    return response;
  }

  // A stream that CancelStreams ends.
  grpc::Status WithContext(const std::function<grpc::Status(grpc::ClientContext*)>& stream,
                           int64_t deadline_ms = 0) {
    grpc::ClientContext context;
    if (deadline_ms > 0) context.set_deadline(After(deadline_ms));
    {
      std::lock_guard lock(mutex);
      if (cancelled) return {grpc::StatusCode::CANCELLED, "the connection was closed"};
      streams.insert(&context);
    }
    grpc::Status status = stream(&context);
    std::lock_guard lock(mutex);
    streams.erase(&context);
    return status;
  }

  template <typename Reader, typename Message>
  absl::Status Stream(const std::function<std::unique_ptr<Reader>(grpc::ClientContext*)>& open,
                      const std::function<bool(const Message&)>& on_message,
                      int64_t deadline_ms = 0) {
    bool ended_by_us = false;
    const grpc::Status status = WithContext(
        [&](grpc::ClientContext* context) {
          const std::unique_ptr<Reader> reader = open(context);
          Message message;
          while (reader->Read(&message)) {
            if (!ended_by_us && !on_message(message)) {
              ended_by_us = true;
              context->TryCancel();
            }
          }
          return reader->Finish();
        },
        deadline_ms);
    return ended_by_us ? absl::OkStatus() : Convert(status);
  }
};

}  // namespace muster::client
