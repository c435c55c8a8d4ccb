// Texts and numbers as trackers write them: valid UTF-8, JSON, shortest decimals. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// Bytes of the UTF-8 sequence at the start of text (not empty), 0 when there is none.
// Source: RFC 3629, table in section 4.
size_t utf8_length(std::string_view text);

// The text with U+FFFD for each byte that is not UTF-8: protobuf and JSON readers refuse such
// bytes.
std::string to_valid_utf8(std::string_view text);

// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// The shortest decimal that reads back as the same double; "nan", "inf", "-inf" as Python spells
// them.
void append_number(std::string& out, double value);

// The same as a JSON value: NaN and infinities are strings (docs/protocol.md).
void append_json_number(std::string& out, double value);

// Seconds since 1970 as milliseconds.
int64_t to_time_ms(double seconds);
// The time now in seconds since 1970.
double wall_time_now();

}  // namespace muster
