// Parses optdigits.csv.gz; see digit_data.h.
#include "examples/digits/digit_data.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "examples/common/gzip_text.h"

namespace digits {
namespace {

// 64 pixels and a label, separated by commas.
bool parse_row(std::string_view line, DigitRows& rows) {
  const char* next = line.data();
  const char* const end = next + line.size();
  for (int column = 0; column <= kPixels; ++column) {
    int value = 0;
    const auto [after, error] = std::from_chars(next, end, value);
    const int most = column == kPixels ? 9 : 16;
    if (error != std::errc() || value < 0 || value > most) return false;
    if (column == kPixels) {
      rows.labels.push_back(value);
      return after == end;
    }
    rows.pixels.push_back(static_cast<float>(value) / 16.0f);
    if (after == end || *after != ',') return false;
    next = after + 1;
  }
  return false;
}

}  // namespace

DigitRows read_digits(const std::string& path) {
  const std::string text = examples::read_gzip(path);
  DigitRows rows;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++number;
    if (!line.empty() && !parse_row(line, rows)) {
      throw std::runtime_error(path + ":" + std::to_string(number) +
                               ": expected 64 pixels of 0 to 16 and a label of 0 to 9");
    }
    begin = end + 1;
  }
  if (rows.rows() <= kTrainRows) {
    throw std::runtime_error(path + " has " + std::to_string(rows.rows()) +
                             " rows, but needs more than " + std::to_string(kTrainRows));
  }
  return rows;
}

}  // namespace digits
