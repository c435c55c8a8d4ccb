// Limits the length of each text and list and the range of each integer in a client's request. One rule holds for every
// field of every call, so that a request can neither fill the state that is kept of it, nor make a message that its
// receiver does not take, nor become another number where a database or a file keeps signed ones. Exceptions to the
// rule have rows in request_limits.cc.
//
// Every call passes here before its handler runs and before the audit takes its texts. Pure.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace muster::coordinator {

struct FieldLimit {
  size_t bytes = 0;            // of a text
  size_t count = 0;            // of a list or map
  bool has_own_check = false;  // the code that reads it checks what is inside
  int64_t least = 0;           // of an integer that is not in a list
  int64_t most = INT64_MAX;
};
FieldLimit LimitOf(const google::protobuf::FieldDescriptor& field);

// INVALID_ARGUMENT that names the first field that is too long or out of range, and its limit.
absl::Status CheckRequestLimits(const google::protobuf::Message& request);

}  // namespace muster::coordinator
