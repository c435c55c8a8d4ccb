#include "common/tensorboard/event_record.h"

#include <cstring>

#include "common/hash/crc32c.h"

namespace muster::common {
namespace {

// Wire types of protobuf.
constexpr uint64_t kVarintType = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
// Fields of Event and of Summary.Value.
constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
constexpr uint64_t kSummaryValue = 1, kTag = 1, kSimpleValue = 2;

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) *out += static_cast<char>(value | 0x80);
  *out += static_cast<char>(value);
}

template <typename T>
void AppendFixed(T value, std::string* out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // every supported machine is little-endian
  out->append(bytes, sizeof bytes);
}

void AppendKey(uint64_t field, uint64_t type, std::string* out) {
  AppendVarint(field << 3 | type, out);
}

void AppendBytes(uint64_t field, std::string_view bytes, std::string* out) {
  AppendKey(field, kBytes, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes);
}

void AppendFrame(std::string_view message, std::string* file) {
  std::string length;
  AppendFixed(uint64_t{message.size()}, &length);
  file->append(length);
  AppendFixed(MaskedCrc32c(length), file);
  file->append(message);
  AppendFixed(MaskedCrc32c(message), file);
}

std::string EventAt(double wall_time) {
  std::string event;
  AppendKey(kWallTime, kFixed64, &event);
  AppendFixed(wall_time, &event);
  return event;
}

}  // namespace

void AppendFileVersion(double wall_time, std::string* file) {
  std::string event = EventAt(wall_time);
  AppendBytes(kFileVersion, "brain.Event:2", &event);
  AppendFrame(event, file);
}

void AppendScalarEvent(const ScalarEvent& scalar, std::string* file) {
  std::string value;
  AppendBytes(kTag, scalar.tag, &value);
  AppendKey(kSimpleValue, kFixed32, &value);
  AppendFixed(static_cast<float>(scalar.value), &value);
  std::string summary;
  AppendBytes(kSummaryValue, value, &summary);
  std::string event = EventAt(scalar.wall_time);
  AppendKey(kStep, kVarintType, &event);
  AppendVarint(static_cast<uint64_t>(scalar.step), &event);
  AppendBytes(kSummary, summary, &event);
  AppendFrame(event, file);
}

}  // namespace muster::common
