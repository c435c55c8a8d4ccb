// CSV (RFC 4180) in pieces of any size: quoted fields, doubled quotes, line breaks inside quotes, CRLF
// or LF. Pure; any bytes are safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace muster::client {

class CsvRows {
 public:
  static constexpr size_t kRowBytesMax = 4 << 20;
  static constexpr size_t kColumnsMax = 10'000;

  // A row and the number of the line that it starts on, from 1. An error stops reading.
  using OnRow = std::function<absl::Status(const std::vector<std::string>& fields, size_t line)>;
  explicit CsvRows(OnRow on_row) : on_row_(std::move(on_row)) {}

  // Errors: `on_row`'s, and INVALID_ARGUMENT, without a code, for a row that is too large.
  absl::Status Feed(std::string_view bytes);
  // The last row may lack its line break. INVALID_ARGUMENT if a quoted field is not closed.
  absl::Status Finish();

 private:
  absl::Status EndRow();
  absl::Status Take(char c);

  enum class State { kPlain, kQuoted, kQuoteInQuoted };
  const OnRow on_row_;
  State state_ = State::kPlain;
  bool field_begun_ = false;
  bool last_was_return_ = false;
  std::vector<std::string> fields_ = {""};
  size_t row_bytes_ = 0;
  size_t line_ = 1;
  size_t row_line_ = 1;
};

// One field, quoted where it has to be.
std::string CsvField(std::string_view text);

}  // namespace muster::client
