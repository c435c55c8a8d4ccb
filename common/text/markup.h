// Text in HTML and XML. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::common {

// & < > and " as entities: for the text of an element, or an attribute in double quotes.
std::string EscapeMarkup(std::string_view text);

}  // namespace muster::common
