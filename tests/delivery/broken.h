// A promise was broken; says which and what was seen.
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
