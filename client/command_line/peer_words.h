// Words that users of other tools type, and what to suggest instead. Pure.
#pragma once

#include <string_view>

namespace muster::client {

// A word of other tools that has no equivalent here, and what to use instead.
struct Absent {
  std::string_view names;  // "mem|memory"
  std::string_view what;
  std::string_view fix;
};

// Our command for another tool's name: "scancel" -> "cancel". Empty: none.
std::string_view PeerCommand(std::string_view name);
// Commands of other tools without a single counterpart, like "suspend", and what to type instead. Null:
// none.
const Absent* FindAbsentCommand(std::string_view name);
std::string_view PeerFlag(std::string_view name);
// A flag or job file key, for commands that start a job; `-` and `_` are equivalent. Null: none.
const Absent* FindAbsent(std::string_view name);

}  // namespace muster::client
