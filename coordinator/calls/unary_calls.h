// The calls of JobService that have one answer, for transports, which do not know their types: gRPC (services/) and
// HTTP (http/) both use this table, so that each call is compiled once. Made from common/calls.h, where a new call is
// a row.
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
  // Calls the handler (handlers.h). `request` and the response have the prototypes' types. Never blocks.
  void (*handle)(Daemon& daemon, const Caller& caller, const google::protobuf::Message& request,
                 AnyAnswer answer);
};

std::span<const UnaryCall> UnaryCalls();

// Handles a call whose request is within the limits (request_limits.h), once its caller's share has room
// (call_budget.h), with its entry in the audit. The request lives until the answer has been called and destroyed.
void RunUnary(const UnaryCall& call, Daemon& daemon, const Caller& caller, Way way,
              const google::protobuf::Message& request, AnyAnswer answer);

}  // namespace muster::coordinator
