// The objects below a directory in the order of their keys, as S3 lists them: "a-b" before "a/c". One thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace muster::coordinator {

struct KeyWalk {
  std::string root;
  std::string prefix;  // keys that begin with it
  std::string after;   // and come after this one; empty: all
};

// Calls `take` with each key until it returns false. Names that keys do not have are left out, and so is what
// disappears meanwhile.
absl::Status WalkKeys(const KeyWalk& walk, const std::function<bool(const std::string& key)>& take);

}  // namespace muster::coordinator
