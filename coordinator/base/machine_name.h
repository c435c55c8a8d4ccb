// This machine's name, as others may know it.
#pragma once

#include <limits.h>
#include <unistd.h>

#include <string>

namespace muster::coordinator {

inline std::string MachineName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace muster::coordinator
