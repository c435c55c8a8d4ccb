// The calls of JobService that have one answer, for what knows no types: gRPC (services/) and HTTP (http/) both
// make them from this table, so that each is compiled once. From common/calls.h, where a new call is a row.
#pragma once

#include <google/protobuf/message.h>

#include <span>
#include <string_view>

#include "common/calls.h"
#include "coordinator/calls/audited.h"
#include "coordinator/contexts/call_counts.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

struct Daemon;

struct UnaryCall {
  CallId id;
  const common::Call& row;
  const char* path;                          // "/muster.v1.JobService/GetJob"
  const google::protobuf::Message& request;  // prototypes
  const google::protobuf::Message& response;
  // The way to the handler (handlers.h). `request` is of the type of the prototype, and so is the response. Never blocks.
  void (*handle)(Daemon& daemon, const Caller& caller, const google::protobuf::Message& request,
                 AnyAnswer answer);
};

std::span<const UnaryCall> UnaryCalls();

// Handles a call whose request keeps the limits (request_limits.h), once its caller's share has room (call_budget.h),
// with its entry in the audit. The request stays until the answer has been called and is gone.
void RunUnary(const UnaryCall& call, Daemon& daemon, const Caller& caller, Way way,
              const google::protobuf::Message& request, AnyAnswer answer);

}  // namespace muster::coordinator
