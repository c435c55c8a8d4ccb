// Times as S3 writes them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::coordinator::s3 {

// "20130524T000000Z". Unix milliseconds.
std::string BasicTime(int64_t wall_ms);
// "2013-05-24T00:00:00.000Z". Nothing: it is not such a time.
std::optional<int64_t> ReadXmlTime(std::string_view text);
// "Fri, 24 May 2013 00:00:00 GMT", of the fields Date and Last-Modified.
std::optional<int64_t> ReadHttpTime(std::string_view text);

}  // namespace muster::coordinator::s3
