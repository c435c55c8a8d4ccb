// Who is calling, and whether it may: before any handler. Over the unix socket: the uid reported by
// the kernel. With TLS: the certificate. Over plain TCP only the address is known.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string_view>

#include "absl/status/status.h"
#include "coordinator/core/input.h"
#include "coordinator/services/peers.h"

namespace muster::coordinator {

struct Daemon;

struct Asker {
  Caller caller;          // as far as it is known
  absl::Status admitted;  // otherwise what to refuse it with
};

// Who makes this call ("JobService", "GetJob"), and whether it may.
Asker AskerOf(const Daemon& daemon, Peers& peers, const grpc::CallbackServerContext& context,
              std::string_view service, std::string_view call);

}  // namespace muster::coordinator
