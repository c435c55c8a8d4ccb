// A problem found in the data directory: where it is, what is wrong, what to do about it.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {

struct Damage {
  std::string path;  // below the data directory
  std::string what;
  std::string fix;
};

using OnDamage = std::function<void(const Damage&)>;

// An error about the path as damage.
inline Damage DamageOf(const std::string& path, const absl::Status& status) {
  const common::Problem problem = common::ProblemOf(status);
  return {path,
          problem.why.empty() ? problem.what : common::StrCat(problem.what, ": ", problem.why),
          problem.fix};
}

}  // namespace muster::coordinator
