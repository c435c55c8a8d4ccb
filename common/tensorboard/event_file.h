// Scalars from one TensorBoard event file: TFRecord framing with masked CRC-32C, and the parts of
// the protobuf messages Event, Summary and TensorProto that a scalar needs. Pure; any bytes are
// safe. Source: TensorFlow's record_writer.h, event.proto, summary.proto, tensor.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::common {

struct Scalar {
  std::string tag;
  double value = 0;
};

struct EventRecord {
  double wall_time = 0;  // seconds
  int64_t step = 0;
  std::vector<Scalar> scalars;
};

struct FramedRecord {
  EventRecord event;
  size_t bytes = 0;  // of the frame
};

inline constexpr size_t kFrameHeaderBytes = 12;
// The length of the frame that starts with this header of kFrameHeaderBytes. DATA_LOSS if its checksum
// is wrong. With it, a frame that is too large to be a scalar can be skipped unread.
absl::StatusOr<uint64_t> FrameBytes(std::string_view header);

// The first record in `bytes`; nullopt if it is incomplete. DATA_LOSS if a checksum is wrong.
absl::StatusOr<std::optional<FramedRecord>> ReadEventRecord(std::string_view bytes);

// Invalid or unknown fields are skipped.
EventRecord ParseEvent(std::string_view message);

}  // namespace muster::common
