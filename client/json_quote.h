// Text as JSON, for programs and for people at a terminal: control sequences and invisible
// characters are escaped. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::client {

// A JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string JsonQuote(std::string_view text);
// JSON as written by another library: invisible characters become \uXXXX.
std::string EscapeHiddenJson(std::string_view json);

}  // namespace muster::client
