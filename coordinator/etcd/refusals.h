// What etcd's errors mean: whether another try may help, and what a person must do about one that stays.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "coordinator/etcd/client.h"

namespace muster::coordinator::etcd {

// Another member may answer, or the same one a little later.
bool MayPass(const grpc::Status& status);

// Whether the user's password may help. `had_token`: the call had one; without, etcd takes the name in our
// certificate for the user.
bool NeedsToken(const grpc::Status& status, bool had_token);

// UNAVAILABLE if it may pass.
absl::Status StatusOf(const Access& access, const grpc::Status& status,
                      const std::string& endpoint);

}  // namespace muster::coordinator::etcd
