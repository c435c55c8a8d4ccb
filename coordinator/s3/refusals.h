// What S3's errors mean: whether another try may help, and what a person must do about one that stays. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/s3/address.h"
#include "coordinator/s3/answers.h"

namespace muster::coordinator::s3 {

struct Refusal {
  int http_status = 0;
  ErrorAnswer error;
};

// UNAVAILABLE: the same request may succeed a little later. `what` names the request: "PUT s3://bucket/key".
absl::Status StatusOf(const Address& address, const std::string& what, const Refusal& refusal);

// The request was signed with a time that is too far from the server's.
bool IsOfClock(const Refusal& refusal);
// With credentials that the server does not know, or no longer.
bool IsOfCredentials(const Refusal& refusal);

}  // namespace muster::coordinator::s3
