// Who is calling. Over the unix socket only its owner (and root) can connect: the socket has mode
// 0600 in a directory of mode 0700, because gRPC 1.51 does not tell a peer's uid. So the principal
// is our own uid. Over plain TCP nobody is known but by address.
#pragma once

#include <grpcpp/grpcpp.h>

#include "coordinator/core/input.h"

namespace muster::coordinator {

Caller CallerOf(const grpc::CallbackServerContext& context);

}  // namespace muster::coordinator
