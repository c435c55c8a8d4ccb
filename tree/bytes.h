// Writes and reads little-endian numbers, digests and texts, for the manifest, the placement and
// the index. The reader never reads beyond the end of untrusted bytes. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tree/digest.h"

namespace muster::tree {

class ByteWriter {
 public:
  void U8(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void U16(uint16_t value) { Number(value, 2); }
  void U32(uint32_t value) { Number(value, 4); }
  void U64(uint64_t value) { Number(value, 8); }
  void Raw(std::string_view bytes) { out_.append(bytes); }
  void Hash(const Digest& digest) {
    out_.append(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
  }
  // Writes a path that comes after `before` in order: the length of their common prefix, then the
  // rest.
  void Path(std::string_view path, std::string_view before);
  void Reserve(size_t bytes) { out_.reserve(bytes); }
  const std::string& bytes() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  void Number(uint64_t value, int size);

  std::string out_;
};

// After a read beyond the end everything reads as 0 or empty, and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  uint8_t U8() { return static_cast<uint8_t>(Number(1)); }
  uint16_t U16() { return static_cast<uint16_t>(Number(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  std::string_view Raw(size_t size);
  Digest Hash();
  std::string Path(std::string_view before);
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  // True if everything was read, and nothing beyond the end.
  bool AtEnd() const { return ok_ && rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  uint64_t Number(size_t size);

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace muster::tree
