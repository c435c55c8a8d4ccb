// Text as JSON, for programs and for people at a terminal: what a terminal obeys or nobody sees is
// escaped. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::client {

// A JSON string. What is no UTF-8 becomes U+FFFD.
std::string JsonQuote(std::string_view text);
// JSON as another library wrote it: characters that nobody would see become \uXXXX.
std::string EscapeHiddenJson(std::string_view json);

}  // namespace muster::client
