// JobService on gRPC's callback API, generated from the table of calls (common/calls.h). Each call is only a
// wrapper that determines who is calling and where the answer goes.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace muster::coordinator {

struct Daemon;
class Peers;

std::unique_ptr<grpc::Service> MakeJobService(Daemon& daemon, Peers& peers);

}  // namespace muster::coordinator
