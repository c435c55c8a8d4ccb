// event_file: a minimal reader for the protobuf wire format.
#include "common/tensorboard/event_file.h"

#include <bit>
#include <cstring>

#include "common/base/status.h"
#include "common/hash/crc32c.h"

namespace muster::common {
namespace {

constexpr uint64_t kRecordBytesMax = 1ull << 40;  // images and graphs are skipped
constexpr size_t kFrameFooterBytes = 4;

template <typename T>
T LittleEndian(std::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;  // every supported machine is little-endian
}

// Yields one field at a time. After the last or a malformed one, Next returns false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool Next() {
    uint64_t key = 0;
    if (rest_.empty() || !Varint(&key)) return false;
    number_ = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        bytes_ = {};
        return Varint(&value_);
      case 1:
        return Fixed(8);
      case 2: {
        uint64_t size = 0;
        return Varint(&size) && Take(size);
      }
      case 5:
        return Fixed(4);
      default:
        return false;
    }
  }
  uint32_t number() const { return number_; }
  int64_t Integer() const { return static_cast<int64_t>(value_); }
  std::string_view bytes() const { return bytes_; }
  float Float() const { return bytes_.size() == 4 ? LittleEndian<float>(bytes_) : 0; }
  double Double() const { return bytes_.size() == 8 ? LittleEndian<double>(bytes_) : 0; }

 private:
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }
  bool Take(uint64_t size) {
    if (size > rest_.size()) return false;
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool Fixed(size_t size) { return Take(size); }

  std::string_view rest_;
  uint32_t number_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

enum DataType { kFloat = 1, kDouble = 2, kInt32 = 3, kInt64 = 9 };

// Numbers in TensorProto's typed value fields; a packed list of one equals its element.
std::optional<double> TypedValue(int64_t type, const WireReader& field) {
  const std::string_view bytes = field.bytes();
  if (type == kFloat && field.number() == 5 && bytes.size() == 4) return LittleEndian<float>(bytes);
  if (type == kDouble && field.number() == 6 && bytes.size() == 8) {
    return LittleEndian<double>(bytes);
  }
  const bool integers =
      (type == kInt32 && field.number() == 7) || (type == kInt64 && field.number() == 10);
  if (!integers) return std::nullopt;
  if (bytes.empty()) return static_cast<double>(field.Integer());
  // Packed: read it as a varint by framing it as field 1.
  std::string framed("\x08", 1);
  framed.append(bytes);
  WireReader reader(framed);
  return reader.Next() ? std::optional<double>(static_cast<double>(reader.Integer()))
                       : std::nullopt;
}

std::optional<double> ContentValue(int64_t type, std::string_view content) {
  if (type == kFloat && content.size() == 4) return LittleEndian<float>(content);
  if (type == kDouble && content.size() == 8) return LittleEndian<double>(content);
  if (type == kInt32 && content.size() == 4) return LittleEndian<int32_t>(content);
  if (type == kInt64 && content.size() == 8) {
    return static_cast<double>(LittleEndian<int64_t>(content));
  }
  return std::nullopt;
}

// A tensor without dimensions, holding one number.
std::optional<double> ScalarTensor(std::string_view message) {
  int64_t type = 0;
  for (WireReader field(message); field.Next();) {
    if (field.number() == 1) type = field.Integer();
    if (field.number() == 2 && !field.bytes().empty()) return std::nullopt;
  }
  for (WireReader field(message); field.Next();) {
    if (field.number() == 4 && !field.bytes().empty()) return ContentValue(type, field.bytes());
    if (const auto value = TypedValue(type, field)) return value;
  }
  return std::nullopt;
}

void ParseSummaryValue(std::string_view message, EventRecord* event) {
  Scalar scalar;
  bool found = false;
  for (WireReader field(message); field.Next();) {
    if (field.number() == 1) scalar.tag = std::string(field.bytes());
    if (field.number() == 2 && field.bytes().size() == 4) {
      scalar.value = field.Float();
      found = true;
    }
    if (field.number() == 8) {
      if (const auto value = ScalarTensor(field.bytes())) {
        scalar.value = *value;
        found = true;
      }
    }
  }
  if (found && !scalar.tag.empty()) event->scalars.push_back(std::move(scalar));
}

}  // namespace

EventRecord ParseEvent(std::string_view message) {
  EventRecord event;
  for (WireReader field(message); field.Next();) {
    if (field.number() == 1) event.wall_time = field.Double();
    if (field.number() == 2) event.step = field.Integer();
    if (field.number() != 5) continue;
    for (WireReader value(field.bytes()); value.Next();) {
      if (value.number() == 1) ParseSummaryValue(value.bytes(), &event);
    }
  }
  return event;
}

absl::StatusOr<uint64_t> FrameBytes(std::string_view header) {
  const uint64_t size = LittleEndian<uint64_t>(header);
  if (LittleEndian<uint32_t>(header.substr(8)) != MaskedCrc32c(header.substr(0, 8)) ||
      size > kRecordBytesMax) {
    return absl::DataLossError("the length of a record does not match its checksum");
  }
  return kFrameHeaderBytes + size + kFrameFooterBytes;
}

absl::StatusOr<std::optional<FramedRecord>> ReadEventRecord(std::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes) return std::nullopt;
  ASSIGN_OR_RETURN(const uint64_t frame, FrameBytes(bytes));
  if (bytes.size() < frame) return std::nullopt;
  const std::string_view data =
      bytes.substr(kFrameHeaderBytes, frame - kFrameHeaderBytes - kFrameFooterBytes);
  if (LittleEndian<uint32_t>(bytes.substr(frame - kFrameFooterBytes)) != MaskedCrc32c(data)) {
    return absl::DataLossError("a record does not match its checksum");
  }
  return FramedRecord{ParseEvent(data), static_cast<size_t>(frame)};
}

}  // namespace muster::common
