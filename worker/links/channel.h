// Channels to the coordinator, with the keepalive rules of docs/operating.md. Only links include
// this file.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "worker/links/route.h"

namespace muster::worker {

// `own_connection`: use a separate connection, so that bulk data never delays heartbeats.
std::shared_ptr<grpc::Channel> MakeChannel(const Route& route, bool own_connection);

}  // namespace muster::worker
