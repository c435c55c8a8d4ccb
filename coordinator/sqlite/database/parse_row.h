// Parses a message in a column of a row. A damaged file may contain any bytes, so callers must
// check the result.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string_view>

namespace muster::coordinator {

[[nodiscard]] inline bool ParseRow(std::string_view bytes, google::protobuf::MessageLite* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace muster::coordinator
