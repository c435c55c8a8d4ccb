// PNG with stored blocks; see png.h.
#include "tracking/png.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace muster {
namespace {

void append_big_endian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320u : 0u);
    table[byte] = crc;
  }
  return table;
}

uint32_t crc32(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

uint32_t adler32(std::string_view bytes) {
  constexpr uint32_t kPrime = 65521;
  constexpr size_t kBytesWithoutOverflow = 5552;
  uint32_t low = 1, high = 0;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kBytesWithoutOverflow);
    for (const char byte : piece) {
      low += static_cast<unsigned char>(byte);
      high += low;
    }
    low %= kPrime;
    high %= kPrime;
    bytes.remove_prefix(piece.size());
  }
  return high << 16 | low;
}

void append_chunk(std::string& png, std::string_view type, std::string_view data) {
  append_big_endian(png, static_cast<uint32_t>(data.size()));
  const size_t covered = png.size();
  png += type;
  png += data;
  append_big_endian(png, crc32(std::string_view(png).substr(covered)));
}

// A zlib stream of stored blocks of at most 65,535 bytes.
std::string stored(std::string_view bytes) {
  std::string stream("\x78\x01", 2);
  const uint32_t checksum = adler32(bytes);
  do {
    const std::string_view block = bytes.substr(0, 0xffff);
    bytes.remove_prefix(block.size());
    const auto length = static_cast<uint16_t>(block.size());
    stream += bytes.empty() ? '\1' : '\0';
    for (const uint16_t field : {length, static_cast<uint16_t>(~length)}) {
      stream += static_cast<char>(field & 0xff);
      stream += static_cast<char>(field >> 8);
    }
    stream += block;
  } while (!bytes.empty());
  append_big_endian(stream, checksum);
  return stream;
}

void check(const ImageData& image) {
  const bool sizes =
      image.height > 0 && image.width > 0 && image.channels >= 1 && image.channels <= 4;
  const auto expected = static_cast<uint64_t>(std::max(image.height, 0)) *
                        static_cast<uint64_t>(std::max(image.width, 0)) *
                        static_cast<uint64_t>(std::max(image.channels, 0));
  if (sizes && image.pixels.size() == expected && expected < (uint64_t{1} << 30)) return;
  throw std::invalid_argument(
      "an image of height " + std::to_string(image.height) + ", width " +
      std::to_string(image.width) + " and " + std::to_string(image.channels) + " channels with " +
      std::to_string(image.pixels.size()) + " bytes: expected 1 to 4 channels, height * width * " +
      "channels bytes, and less than 1 GiB");
}

}  // namespace

std::string encode_png(const ImageData& image) {
  check(image);
  constexpr std::array<char, 5> kColourType = {0, 0, 4, 2, 6};  // by channels
  const auto row_bytes = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  std::string rows;
  rows.reserve((row_bytes + 1) * static_cast<size_t>(image.height));
  for (int row = 0; row < image.height; ++row) {
    rows += '\0';  // no filter
    rows.append(
        reinterpret_cast<const char*>(image.pixels.data()) + static_cast<size_t>(row) * row_bytes,
        row_bytes);
  }
  std::string header;
  append_big_endian(header, static_cast<uint32_t>(image.width));
  append_big_endian(header, static_cast<uint32_t>(image.height));
  header += {8, kColourType[static_cast<size_t>(image.channels)], 0, 0, 0};  // 8 bits a channel

  std::string png("\x89PNG\r\n\x1a\n", 8);
  append_chunk(png, "IHDR", header);
  append_chunk(png, "IDAT", stored(rows));
  append_chunk(png, "IEND", "");
  return png;
}

}  // namespace muster
