// Thrown when a promise is broken; names the promise and what was observed.
#pragma once

#include <stdexcept>
#include <string>

namespace muster::delivery {

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void Expect(bool holds, const std::string& what) {
  if (!holds) throw Broken(what);
}

}  // namespace muster::delivery
