// Names that come from other processes and become paths. Pure, any thread.
#pragma once

#include <string_view>

namespace muster::common {

// True for a relative path without empty, "." or ".." components and without NUL bytes: joined to a
// directory it stays inside it, as long as no symbolic link is followed.
bool StaysInside(std::string_view path);

// Whether a path is this directory or lies in it, by its name: both absolute, or both relative to the
// same place.
bool IsWithin(std::string_view path, std::string_view directory);

}  // namespace muster::common
