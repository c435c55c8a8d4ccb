// Which coordinator a Connection speaks to, and how each kind of call is made with it. Only
// connection.cc and connection_calls.cc use it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connection/connection.h"
#include "client/connection/line.h"
#include "common/base/status.h"
#include "identity/credential_files.h"

namespace muster::client {

class HeadSearch;

struct Connection::Channel {
  int64_t timeout_ms = 0;
  int64_t patience_ms = 0;
  bool any = false;  // one that stands by will do
  std::optional<identity::Credentials> credentials;
  std::shared_ptr<const Line> opened;  // the first one; constant once Open has returned

  std::mutex mutex;  // guards what follows, up to `cancelled`
  std::condition_variable changed;
  std::vector<std::string> addresses;  // of the coordinators that replace each other
  std::shared_ptr<const Line> line;    // of the one that leads
  bool is_lost = false;                // it does not lead any more: the next call looks for another
  std::shared_ptr<HeadSearch> search;  // in progress: one thread looks, others wait
  std::set<grpc::ClientContext*> streams;
  bool cancelled = false;

  std::unique_ptr<grpc::ClientContext> attend_context;
  std::unique_ptr<grpc::ClientReader<v1::AttendResponse>> attend;

  static std::chrono::system_clock::time_point After(int64_t milliseconds) {
    return std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
  }

  // The line to the coordinator that leads, or to any; looks for it if the last one was lost.
  absl::StatusOr<std::shared_ptr<const Line>> Leading();
  // The last one, also if it was lost.
  std::shared_ptr<const Line> Last() {
    std::lock_guard lock(mutex);
    return line;
  }

  // How one try of a call ended.
  struct Outcome {
    absl::Status status;
    bool has_begun = false;  // something of the answer has arrived
    bool was_late = false;   // there was no answer within the limit
  };
  using Try = std::function<Outcome(const Line&)>;
  // Makes the call, and once more at the coordinator that leads then, if the first one did not lead or,
  // for a call that `may_repeat`, went away before it answered.
  absl::Status Make(bool may_repeat, const Try& attempt);

  template <typename Request, typename Response>
  absl::StatusOr<Response> Unary(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&,
                                                                              Response*),
                                 const Request& request, int64_t limit_ms, bool may_repeat) {
    Response response;
    RETURN_IF_ERROR(Make(may_repeat, [&](const Line& to) -> Outcome {
      grpc::ClientContext context;
      context.set_deadline(After(limit_ms));
      response.Clear();
      const grpc::Status status = (to.stub.get()->*method)(&context, request, &response);
      return {.status = to.ConvertUnary(status, limit_ms),
              .was_late = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED};
    }));
    return response;
  }

  // A stream that CancelStreams ends.
  grpc::Status WithContext(const std::function<grpc::Status(grpc::ClientContext*)>& stream,
                           std::optional<std::chrono::system_clock::time_point> deadline = {}) {
    grpc::ClientContext context;
    if (deadline.has_value()) context.set_deadline(*deadline);
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
  absl::Status Stream(const std::function<std::unique_ptr<Reader>(v1::JobService::Stub&,
                                                                  grpc::ClientContext*)>& open,
                      const std::function<bool(const Message&)>& on_message, bool may_repeat,
                      int64_t deadline_ms = 0) {
    std::optional<std::chrono::system_clock::time_point> deadline;
    if (deadline_ms > 0) deadline = After(deadline_ms);
    return Make(may_repeat, [&](const Line& to) -> Outcome {
      bool has_begun = false, ended_by_us = false;
      const grpc::Status status = WithContext(
          [&](grpc::ClientContext* context) {
            const std::unique_ptr<Reader> reader = open(*to.stub, context);
            Message message;
            while (reader->Read(&message)) {
              has_begun = true;
              if (!ended_by_us && !on_message(message)) {
                ended_by_us = true;
                context->TryCancel();
              }
            }
            return reader->Finish();
          },
          deadline);
      return {.status = ended_by_us ? absl::OkStatus() : to.Convert(status),
              .has_begun = has_begun};
    });
  }
};

}  // namespace muster::client
