// Every call of JobService with one answer or a stream of messages, without a transport: caller and request in, answer
// or stream out. Each row of common/calls.h makes a type with the call's name here. Its handler is in the .cc of its
// subject, with MUSTER_HANDLER(name) below it (handler.h); a row without a handler does not link.
#pragma once

#include <memory>

#include "common/calls.h"
#include "coordinator/calls/handler.h"
#include "coordinator/contexts/sink.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator::call {

#define MUSTER_ONE(name, RequestType, Response, action, object, cost)                              \
  struct name {                                                                                    \
    using Request = v1::RequestType;                                                               \
    using Reply = Answer<v1::Response>;                                                            \
    static void Handle(Daemon& daemon, const Caller& caller, const Request& request, Reply reply); \
  };
#define MUSTER_STREAM(name, RequestType, Message, action, object, cost)                            \
  struct name {                                                                                    \
    using Request = v1::RequestType;                                                               \
    using Reply = std::shared_ptr<Sink<v1::Message>>;                                              \
    static void Handle(Daemon& daemon, const Caller& caller, const Request& request, Reply reply); \
  };
#define MUSTER_BY_HAND(name, Request, Response, action, object, cost)
MUSTER_JOB_CALLS(MUSTER_ONE, MUSTER_STREAM, MUSTER_BY_HAND, MUSTER_BY_HAND)
#undef MUSTER_ONE
#undef MUSTER_STREAM
#undef MUSTER_BY_HAND

}  // namespace muster::coordinator::call
