#include "tests/support/paths.h"

namespace muster {

std::string TestSource(std::string_view below) {
  return MUSTER_SOURCE_DIR "/" + std::string(below);
}

std::string TestBuild(std::string_view below) { return MUSTER_BINARY_DIR "/" + std::string(below); }

std::string TestPython() { return MUSTER_TEST_PYTHON; }

}  // namespace muster
