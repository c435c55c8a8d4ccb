// Who is calling, and whether it may: before any handler. Over the unix socket: the uid reported by
// the kernel. With TLS: the certificate. Over plain TCP only the address is known.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/calls.h"
#include "coordinator/contexts/call_budget.h"
#include "coordinator/core/state/input.h"
#include "coordinator/services/peers.h"

namespace muster::coordinator {

struct Daemon;

struct Asker {
  Caller caller;          // as far as it is known
  absl::Status admitted;  // otherwise what to refuse it with
};

// Who makes this call, and whether it may.
Asker AskerOf(const Daemon& daemon, Peers& peers, const grpc::CallbackServerContext& context,
              const common::Call& row);

// For calls that are written by hand: what the call takes of its caller's share of memory (contexts/call_budget.h), until it
// is over; or JC1308. Workers without a certificate cannot be told apart, and take nothing.
absl::StatusOr<CallBudget::Hold> TakeShare(Daemon& daemon, const Caller& caller,
                                           const common::Call& row);

}  // namespace muster::coordinator
