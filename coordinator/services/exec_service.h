// ExecService on gRPC's callback API: commands in running jobs (exec/exec.h).
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace muster::coordinator {

class Peers;
struct Daemon;

std::unique_ptr<grpc::Service> MakeExecService(Daemon& daemon, Peers& peers);

}  // namespace muster::coordinator
