// Strings and numbers as trackers write them: valid UTF-8, JSON, shortest decimals. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// Length in bytes of the UTF-8 sequence at the start of text (not empty); 0 if it is invalid.
// Source: RFC 3629, table in section 4.
size_t utf8_length(std::string_view text);

// The text with each byte that is not UTF-8 replaced by U+FFFD, because protobuf and JSON readers
// reject such bytes.
std::string to_valid_utf8(std::string_view text);

// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// The shortest decimal that parses to the same double; "nan", "inf", "-inf" as in Python.
void append_number(std::string& out, double value);

// The same as a JSON value: NaN and infinities are strings (docs/protocol.md).
void append_json_number(std::string& out, double value);

// Converts Unix time from seconds to milliseconds.
int64_t to_time_ms(double seconds);
// The current Unix time in seconds.
double wall_time_now();

}  // namespace muster
