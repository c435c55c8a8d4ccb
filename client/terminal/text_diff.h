// Two texts as `diff -u` shows them. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::client {

// Empty if they are equal. Names and lines are printable; for a text with a NUL byte, only the fact
// that it differs is shown. Texts that differ in very many lines are shown as all of one and all of
// the other.
std::string UnifiedDiff(std::string_view a, std::string_view b, const std::string& name_a,
                        const std::string& name_b);

}  // namespace muster::client
