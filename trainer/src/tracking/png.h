// A PNG encoder that does not compress: small, quick, and without zlib, which the SDK does not
// link. Pure. Sources: RFC 2083 (PNG), RFC 1950 (zlib), RFC 1951 section 3.2.4 (stored blocks).
#pragma once

#include <string>

#include "muster/tracker.h"

namespace muster {

// The image as a PNG file, about as large as its pixels. Throws std::invalid_argument when the
// sizes do not fit each other.
std::string encode_png(const ImageData& image);

}  // namespace muster
