// Channels to the coordinator, with the keepalive rules of docs/operating.md. Only links include
// this file.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "worker/links/route.h"

namespace muster::worker {

// `own_connection`: use a separate connection, so that bulk data never delays heartbeats.
std::shared_ptr<grpc::Channel> MakeChannel(const Route& route, bool own_connection);

// The longest pause before the next dial after so many failures in a row: doubles, up to 5 s.
int64_t DialPauseMaxMs(int failures);

}  // namespace muster::worker
