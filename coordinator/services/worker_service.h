// WorkerService on gRPC's callback API: control streams, and the bulk streams into the stores.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace muster::coordinator {

class Peers;
struct Daemon;

std::unique_ptr<grpc::Service> MakeWorkerService(Daemon& daemon, Peers& peers);

}  // namespace muster::coordinator
