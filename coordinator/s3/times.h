// Percent-encoding as S3's signatures have it, and times as S3 writes them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::coordinator::s3 {

// All but letters, digits and "-._~" as %XX. `keeps_slash`: and but "/", as in a path.
std::string PercentEncode(std::string_view text, bool keeps_slash = false);
// Nothing: a % without two hex digits.
std::optional<std::string> PercentDecode(std::string_view text);

// "20130524T000000Z". Unix milliseconds.
std::string BasicTime(int64_t wall_ms);
// "2013-05-24T00:00:00.000Z". Nothing: it is not such a time.
std::optional<int64_t> ReadXmlTime(std::string_view text);
// "Fri, 24 May 2013 00:00:00 GMT", of the fields Date and Last-Modified.
std::optional<int64_t> ReadHttpTime(std::string_view text);

}  // namespace muster::coordinator::s3
