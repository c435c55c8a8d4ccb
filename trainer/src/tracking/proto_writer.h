// Writes protobuf's wire format by hand: the SDK cannot link protobuf, which would clash with the
// one inside LibTorch. Pure. Source: https://protobuf.dev/programming-guides/encoding.
//
// A message is a growing std::string; write a nested message first, then add it with bytes().
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace muster {

class ProtoWriter {
 public:
  ProtoWriter& integer(int field, int64_t value) {  // int32, int64, enum, bool
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  ProtoWriter& number(int field, double value) {
    key(field, 1);
    fixed(std::bit_cast<uint64_t>(value));
    return *this;
  }
  ProtoWriter& number32(int field, float value) {
    key(field, 5);
    fixed(std::bit_cast<uint32_t>(value));
    return *this;
  }
  ProtoWriter& bytes(int field, std::string_view value) {  // string, bytes, message
    key(field, 2);
    varint(value.size());
    out_ += value;
    return *this;
  }
  ProtoWriter& message(int field, const ProtoWriter& value) { return bytes(field, value.out_); }
  ProtoWriter& packed(int field, std::span<const double> values) {
    key(field, 2);
    varint(8 * values.size());
    for (const double value : values) fixed(std::bit_cast<uint64_t>(value));
    return *this;
  }

  const std::string& str() const { return out_; }
  void clear() { out_.clear(); }

 private:
  void key(int field, int wire_type) { varint(static_cast<uint64_t>(field) << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  template <typename Unsigned>
  void fixed(Unsigned value) {
    for (size_t i = 0; i < sizeof(value); ++i) out_ += static_cast<char>(value >> (8 * i));
  }

  std::string out_;
};

}  // namespace muster
