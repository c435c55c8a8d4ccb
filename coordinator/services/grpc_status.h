// Our status as gRPC's, with its value in the error details (common/status_wire.h bounds it). Pure.
#pragma once

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/status_wire.h"

namespace muster::coordinator {

inline grpc::Status ToGrpc(const absl::Status& status) {
  common::WireStatus wire = common::ToWire(status);
  return {static_cast<grpc::StatusCode>(wire.code), std::move(wire.message),
          std::move(wire.details)};
}

}  // namespace muster::coordinator
