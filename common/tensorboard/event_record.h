// Writes scalars as records of a TensorBoard event file; event_file.h reads them. Pure.
// Source: TensorFlow's record_writer.h, event.proto, summary.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::common {

// Appends the record that every event file starts with.
void AppendFileVersion(double wall_time, std::string* file);

struct ScalarEvent {
  std::string_view tag;  // valid UTF-8
  int64_t step = 0;
  double value = 0;      // stored as a float: TensorBoard has no other scalars
  double wall_time = 0;  // seconds
};
void AppendScalarEvent(const ScalarEvent& event, std::string* file);

}  // namespace muster::common
