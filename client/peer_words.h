// What people who come from other tools type, and what to tell them. Pure.
#pragma once

#include <string_view>

namespace muster::client {

// A name of a peer's and ours: "scancel" -> "cancel". Empty: none.
std::string_view PeerCommand(std::string_view name);
std::string_view PeerFlag(std::string_view name);
// A flag or job file key of other tools for which there is none here: what there is instead.
struct Absent {
  std::string_view names;  // "mem|memory"
  std::string_view what;
  std::string_view fix;
};
// For what starts a job; `-` and `_` are alike. Null: none.
const Absent* FindAbsent(std::string_view name);

}  // namespace muster::client
