// Names that come from others and become paths. Pure, any thread.
#pragma once

#include <string_view>

namespace muster::common {

// A relative path without empty, "." or ".." components: joined to a directory it stays below it,
// as long as no symbolic link is followed.
bool StaysInside(std::string_view path);

}  // namespace muster::common
