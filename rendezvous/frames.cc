#include "rendezvous/frames.h"

#include <cstring>

#include "rendezvous/requests.h"

namespace muster::rendezvous {

FrameWriter::FrameWriter(std::string* out, Frame kind) : out_(out), begin_(out->size()) {
  out_->append(sizeof(uint32_t), '\0');
  out_->push_back(static_cast<char>(kind));
}

FrameWriter::~FrameWriter() {
  const auto length = static_cast<uint32_t>(out_->size() - begin_ - sizeof(uint32_t));
  std::memcpy(out_->data() + begin_, &length, sizeof length);
}

FrameWriter& FrameWriter::Number(uint64_t number) {
  AppendNumber(out_, number);
  return *this;
}

FrameWriter& FrameWriter::Byte(uint8_t byte) {
  out_->push_back(static_cast<char>(byte));
  return *this;
}

FrameWriter& FrameWriter::Text(std::string_view text) {
  AppendText(out_, text);
  return *this;
}

FrameWriter& FrameWriter::Rest(std::string_view bytes) {
  out_->append(bytes);
  return *this;
}

std::string_view FrameReader::Take(uint64_t count) {
  if (count > rest_.size()) {
    is_bad_ = true;
    rest_ = {};
    return {};
  }
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

uint64_t FrameReader::Number() {
  uint64_t number = 0;
  const std::string_view bytes = Take(sizeof number);
  if (!bytes.empty()) std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

uint8_t FrameReader::Byte() {
  const std::string_view bytes = Take(1);
  return bytes.empty() ? uint8_t{0} : static_cast<uint8_t>(bytes[0]);
}

std::string_view FrameReader::Text() { return Take(Number()); }

Split NextFrame(std::string_view bytes, Frame* kind, std::string_view* fields, size_t* used) {
  uint32_t length = 0;
  if (bytes.size() < sizeof length) return Split::kPartial;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length == 0 || length > kFrameBytesMax) return Split::kBad;
  if (bytes.size() - sizeof length < length) return Split::kPartial;
  *kind = static_cast<Frame>(bytes[sizeof length]);
  *fields = bytes.substr(sizeof length + 1, length - 1);
  *used = sizeof length + length;
  return Split::kWhole;
}

}  // namespace muster::rendezvous
