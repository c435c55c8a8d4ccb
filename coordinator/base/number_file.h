// A few whole numbers in a one-line text that ends with their CRC-32C. For data that may be lost
// but must not be trusted if damaged: such a file is written in place and never synced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster::coordinator {

// All texts have the same width, so that a later text covers an earlier one.
std::string NumbersText(const std::vector<int64_t>& numbers);
// Empty unless it holds exactly `count` numbers and their checksum.
std::vector<int64_t> ParseNumbers(const std::string& text, size_t count);

// Empty if there is no such file, or it does not hold exactly `count` numbers and their checksum.
std::vector<int64_t> ReadNumbers(const std::string& path, size_t count);
absl::Status WriteNumbers(const std::string& path, const std::vector<int64_t>& numbers);

}  // namespace muster::coordinator
