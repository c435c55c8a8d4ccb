// Who is calling. Over the unix socket: the uid reported by the kernel ("uid:1000"). Over plain TCP
// only the address is known ("peer:10.0.0.7").
#pragma once

#include <grpcpp/grpcpp.h>

#include "coordinator/core/input.h"
#include "coordinator/services/peers.h"

namespace muster::coordinator {

Caller CallerOf(const grpc::CallbackServerContext& context, const Peers& peers);

}  // namespace muster::coordinator
