// Calls that end at once with a status, before any handler saw them.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "coordinator/services/grpc_status.h"

namespace muster::coordinator {

template <typename In, typename Out>
class RefusedDuplex final : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit RefusedDuplex(const absl::Status& why) { this->Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

template <typename In>
class RefusedRead final : public grpc::ServerReadReactor<In> {
 public:
  explicit RefusedRead(const absl::Status& why) { this->Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace muster::coordinator
