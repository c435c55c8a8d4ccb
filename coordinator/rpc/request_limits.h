// How long each text and each list of a client's request may be: one rule for every field of every
// call, so that a request can neither fill the state that is kept of it nor make a message that its
// receiver does not take. What may be longer than others has a row in request_limits.cc.
//
// Every call passes here before its handler and before the audit takes its words. Pure.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>

#include "absl/status/status.h"

namespace muster::coordinator {

struct FieldLimit {
  size_t bytes = 0;            // of a text
  size_t count = 0;            // of a list or map
  bool has_own_check = false;  // what is inside is checked by whoever reads it
};
FieldLimit LimitOf(const google::protobuf::FieldDescriptor& field);

// INVALID_ARGUMENT that names the first field that is too long, and its limit.
absl::Status CheckRequestLimits(const google::protobuf::Message& request);

}  // namespace muster::coordinator
