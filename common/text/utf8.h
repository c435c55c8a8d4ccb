// UTF-8 (RFC 3629) as bytes: no surrogates, no overlong forms. Pure, any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace muster::common {

// Length of the valid sequence at the start of `text`, which is not empty; 0 if there is none.
size_t Utf8SequenceLength(std::string_view text);
// Valid from end to end, control characters included (common/text/text.h has stricter rules).
bool IsUtf8(std::string_view text);

}  // namespace muster::common
