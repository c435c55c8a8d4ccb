// Channels to the coordinator, with the keepalive rules of docs/operating.md. Only links include
// this file.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace muster::worker {

// `own_connection`: use a separate connection, so that bulk data never delays heartbeats.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint, bool own_connection);

}  // namespace muster::worker
