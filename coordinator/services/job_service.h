// JobService on gRPC's callback API, made from the table of calls (rpc/calls.h). Each call only
// wraps: who asks, where the answer goes.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace muster::coordinator {

struct Daemon;
class Peers;

std::unique_ptr<grpc::Service> MakeJobService(Daemon& daemon, const Peers& peers);

}  // namespace muster::coordinator
