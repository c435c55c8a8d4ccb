// The calls of JobService over HTTP: one row per call of common/calls.h, so that a call that is added
// there appears here, too. Calls that last as long as their stream is open are left out, and so is the
// one that makes sign-in links.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/calls.h"
#include "coordinator/contexts/call_counts.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

// The messages of an answer. A call that is not a stream has one.
struct ApiAnswer {
  std::vector<std::shared_ptr<const google::protobuf::Message>> messages;
  bool more = false;  // a stream: it had more messages than fit, or was not over yet
};
// Called once, on any thread.
using Finish = std::function<void(const absl::Status&, ApiAnswer)>;

struct ApiCall {
  CallId id;
  const common::Call* row;
  bool is_stream;
  const google::protobuf::Message* request;  // prototypes
  const google::protobuf::Message* answer;
  // `request` is of the type of the prototype. Never blocks.
  std::function<void(Daemon& daemon, const Caller& caller, const google::protobuf::Message& request,
                     Finish finish)>
      run;
};

std::span<const ApiCall> ApiCalls();
// Null if there is none.
const ApiCall* FindApiCall(std::string_view name);

}  // namespace muster::coordinator::http
