// Runs a Python program with the packages that read and write the same files.
#pragma once

#include <chrono>
#include <string>

#include "support/child_process.h"
#include "tests/support/paths.h"

namespace muster {

inline ChildResult python(const std::string& program, const std::string& argument) {
  ChildProcess child({TestPython(), "-c", program, argument}, {{"OMP_NUM_THREADS", "1"}});
  return child.wait(std::chrono::steady_clock::now() + std::chrono::seconds(120));
}

inline bool python_has(const std::string& module) {
  return python(
             "import importlib.util, sys\n"
             "sys.exit(0 if importlib.util.find_spec(sys.argv[1]) else 1)\n",
             module)
             .exit_code == 0;
}

}  // namespace muster
