#include "coordinator/base/number_file.h"

#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/files/files.h"
#include "common/hash/crc32c.h"

namespace muster::coordinator {
namespace {

constexpr size_t kFileBytesMax = 1'024;
constexpr size_t kChecksumBytes = 9;  // eight hex digits and a newline

}  // namespace

std::string NumbersText(const std::vector<int64_t>& numbers) {
  std::string line;
  for (const int64_t number : numbers) absl::StrAppendFormat(&line, "%020d ", number);
  absl::StrAppendFormat(&line, "%08x\n", common::Crc32c(line));
  return line;
}

std::vector<int64_t> ParseNumbers(const std::string& text, size_t count) {
  if (text.size() <= kChecksumBytes || text.size() > kFileBytesMax) return {};
  std::vector<int64_t> numbers;
  const absl::string_view listed(text.data(), text.size() - kChecksumBytes);
  for (const absl::string_view word : absl::StrSplit(listed, ' ', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(word, &numbers.emplace_back())) return {};
  }
  if (numbers.size() != count || NumbersText(numbers) != text) return {};
  return numbers;
}

std::vector<int64_t> ReadNumbers(const std::string& path, size_t count) {
  const absl::StatusOr<std::string> text = common::ReadFile(path, kFileBytesMax);
  return text.ok() ? ParseNumbers(*text, count) : std::vector<int64_t>();
}

absl::Status WriteNumbers(const std::string& path, const std::vector<int64_t>& numbers) {
  return common::WriteInPlace(path, NumbersText(numbers));
}

}  // namespace muster::coordinator
