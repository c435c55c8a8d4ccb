// Reads the handwritten digits of examples/data: plain C++, no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace digits {

inline constexpr int kPixels = 64;        // 8 x 8, row-major
inline constexpr int kTrainRows = 1'437;  // the rest is held out: other writers

struct DigitRows {
  std::vector<float> pixels;    // [rows][64], 0 to 1
  std::vector<int64_t> labels;  // [rows], 0 to 9
  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
};

// Reads the gzipped table. Throws std::runtime_error naming the file and the invalid line.
DigitRows read_digits(const std::string& path);

}  // namespace digits
