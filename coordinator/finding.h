// What a look at the data directory found: where, what is wrong, what to do about it.
#pragma once

#include <functional>
#include <string>

namespace muster::coordinator {

struct Finding {
  std::string path;  // below the data directory
  std::string what;
  std::string fix;
};

using Found = std::function<void(const Finding&)>;

}  // namespace muster::coordinator
