// Checks what a coordinator tells people and programs to use: an address to connect to, a page to open.
// The coordinator may be hostile or an impostor, so nothing reaches a terminal, a browser or a
// credentials file unchecked. Pure; any thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace muster::identity {

// HOST:PORT, and not a socket of this machine. JC1371: anything else; `from` gave it.
absl::Status CheckEndpoint(std::string_view from, std::string_view endpoint);
// A page of http or https whose address can stand on a line and in HTML. JC1371.
absl::Status CheckPage(std::string_view from, std::string_view url);
// What a person types: at most 64 bytes that a terminal can show. JC1371.
absl::Status CheckUserCode(std::string_view from, std::string_view code);

}  // namespace muster::identity
