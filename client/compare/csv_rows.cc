#include "client/compare/csv_rows.h"

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::client {

absl::Status CsvRows::Feed(std::string_view bytes) {
  for (const char c : bytes) {
    RETURN_IF_ERROR(Take(c));
    if (c == '\n') ++line_;
    last_was_return_ = c == '\r';
  }
  return absl::OkStatus();
}

absl::Status CsvRows::Take(char c) {
  if (++row_bytes_ > kRowBytesMax || fields_.size() > kColumnsMax) {
    return absl::InvalidArgumentError(common::StrCat(
        "line ", row_line_, " has more than ", kRowBytesMax, " bytes or ", kColumnsMax, " fields"));
  }
  if (state_ == State::kQuoted) {
    if (c == '"') {
      state_ = State::kQuoteInQuoted;
    } else {
      fields_.back() += c;
    }
    return absl::OkStatus();
  }
  if (c == '"' && (state_ == State::kQuoteInQuoted || !field_begun_)) {
    if (state_ == State::kQuoteInQuoted) fields_.back() += '"';
    state_ = State::kQuoted;
    field_begun_ = true;
    return absl::OkStatus();
  }
  state_ = State::kPlain;
  if (c == ',') {
    fields_.emplace_back();
    field_begun_ = false;
  } else if (c == '\n') {
    return EndRow();
  } else if (c != '\r') {
    if (last_was_return_ && field_begun_) fields_.back() += '\r';
    fields_.back() += c;
    field_begun_ = true;
  }
  return absl::OkStatus();
}

absl::Status CsvRows::EndRow() {
  const bool is_blank = fields_.size() == 1 && fields_[0].empty();
  if (!is_blank) RETURN_IF_ERROR(on_row_(fields_, row_line_));
  fields_.assign(1, "");
  field_begun_ = false;
  row_bytes_ = 0;
  row_line_ = line_ + 1;
  return absl::OkStatus();
}

absl::Status CsvRows::Finish() {
  if (state_ == State::kQuoted) {
    return absl::InvalidArgumentError(
        common::StrCat("a quoted field of line ", row_line_, " is not closed"));
  }
  return EndRow();
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace muster::client
