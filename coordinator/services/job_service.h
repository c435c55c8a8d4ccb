// JobService on gRPC's callback API. Each call only wraps: who asks, where the answer goes.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace muster::coordinator {

struct Daemon;

std::unique_ptr<grpc::Service> MakeJobService(Daemon& daemon);

}  // namespace muster::coordinator
