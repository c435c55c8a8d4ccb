// PNG by stb_image_write, compiled into this file alone; see png.h.
#include "tracking/png.h"

// Static: a program that uses the SDK may have its own copy of stb.
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include <algorithm>
#include <new>
#include <stdexcept>

namespace muster {
namespace {

// stb counts in int.
constexpr uint64_t kBytesMax = uint64_t{1} << 30;

void check(const ImageData& image) {
  const bool sizes =
      image.height > 0 && image.width > 0 && image.channels >= 1 && image.channels <= 4;
  const auto height = static_cast<uint64_t>(std::max(image.height, 0));
  const uint64_t row =
      static_cast<uint64_t>(std::max(image.width, 0)) * std::max(image.channels, 0);
  // A row has one byte more in the file.
  if (sizes && image.pixels.size() == height * row && height * (row + 1) < kBytesMax) return;
  throw std::invalid_argument(
      "an image of height " + std::to_string(image.height) + ", width " +
      std::to_string(image.width) + " and " + std::to_string(image.channels) + " channels with " +
      std::to_string(image.pixels.size()) + " bytes: expected 1 to 4 channels, height * width * " +
      "channels bytes, and less than 1 GiB");
}

void append(void* png, void* bytes, int size) {
  static_cast<std::string*>(png)->append(static_cast<const char*>(bytes),
                                         static_cast<size_t>(size));
}

}  // namespace

std::string encode_png(const ImageData& image) {
  check(image);
  std::string png;
  const int row_bytes = image.width * image.channels;
  if (stbi_write_png_to_func(append, &png, image.width, image.height, image.channels,
                             image.pixels.data(), row_bytes) == 0) {
    throw std::bad_alloc();
  }
  return png;
}

}  // namespace muster
