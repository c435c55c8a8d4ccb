// Identifies the caller and checks whether it may make the call, before any handler runs. Over the unix
// socket the kernel reports its uid; with TLS it has a certificate; over plain TCP only its address is known.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/calls.h"
#include "coordinator/contexts/call_budget.h"
#include "coordinator/core/state/input.h"
#include "coordinator/services/peers.h"

namespace muster::coordinator {

class Admission;
struct Daemon;

struct Asker {
  Caller caller;          // as far as it is known
  absl::Status admitted;  // OK, or the error that refuses the call
};

// Who makes this call, and whether it may.
Asker AskerOf(const Admission& admission, Peers& peers, const grpc::CallbackServerContext& context,
              const common::Call& row, int64_t now_ms);
Asker AskerOf(const Daemon& daemon, Peers& peers, const grpc::CallbackServerContext& context,
              const common::Call& row);

// For calls that are not made from the table: holds the call's part of its caller's share of memory
// (contexts/call_budget.h) until the call is over; or JC1308. Workers without a certificate cannot be told
// apart, and take nothing.
absl::StatusOr<CallBudget::Hold> TakeShare(Daemon& daemon, const Caller& caller,
                                           const common::Call& row);

}  // namespace muster::coordinator
