// Who is calling. Over the unix socket: the uid that the kernel tells ("uid:1000"). Over plain TCP
// nobody is known but by address ("peer:10.0.0.7").
#pragma once

#include <grpcpp/grpcpp.h>

#include "coordinator/core/input.h"
#include "coordinator/services/peers.h"

namespace muster::coordinator {

Caller CallerOf(const grpc::CallbackServerContext& context, const Peers& peers);

}  // namespace muster::coordinator
