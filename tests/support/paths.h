// Where tests find what they read and start. Of all their sources only paths.cc knows where the trees lie, so that
// a compiler cache serves the others in every clone.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// A file of the source tree: TestSource("docs/findings.md").
std::string TestSource(std::string_view below);

// A file of the build tree: TestBuild("bin/jobctl").
std::string TestBuild(std::string_view below);

// The Python that has torch and the packages of tests/requirements.txt.
std::string TestPython();

}  // namespace muster
