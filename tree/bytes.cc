#include "tree/bytes.h"

#include <algorithm>
#include <cstring>

namespace muster::tree {

void ByteWriter::Number(uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
}

void ByteWriter::Path(std::string_view path, std::string_view before) {
  const auto differs = std::mismatch(path.begin(), path.end(), before.begin(), before.end());
  const size_t shared = static_cast<size_t>(differs.first - path.begin());
  U16(static_cast<uint16_t>(shared));
  U16(static_cast<uint16_t>(path.size() - shared));
  Raw(path.substr(shared));
}

std::string_view ByteReader::Raw(size_t size) {
  if (!ok_ || rest_.size() < size) {
    ok_ = false;
    return {};
  }
  const std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

uint64_t ByteReader::Number(size_t size) {
  const std::string_view bytes = Raw(size);
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

Digest ByteReader::Hash() {
  Digest digest;
  const std::string_view bytes = Raw(digest.bytes.size());
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

std::string ByteReader::Path(std::string_view before) {
  const size_t shared = U16();
  const std::string_view rest = Raw(U16());
  if (shared > before.size()) Fail();
  if (!ok_) return {};
  std::string path;
  path.reserve(shared + rest.size());
  path.append(before.substr(0, shared)).append(rest);
  return path;
}

}  // namespace muster::tree
