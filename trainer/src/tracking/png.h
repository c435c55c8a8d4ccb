// A PNG encoder for the trackers. Pure.
#pragma once

#include <string>

#include "muster/tracking/tracker.h"

namespace muster {

// The image as a PNG file, compressed. Throws std::invalid_argument when the sizes do not fit each
// other.
std::string encode_png(const ImageData& image);

}  // namespace muster
