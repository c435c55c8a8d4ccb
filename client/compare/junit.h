// A comparison as JUnit XML for CI: a test suite for each metric of each run, a test case for each
// epoch or for a piece of the steps. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compare/comparison.h"

namespace muster::client {

inline constexpr size_t kJUnitCasesMax = 100;  // of one suite; more rows share cases
// How every report begins: only such a file is overwritten.
inline constexpr std::string_view kJUnitHead =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"jobctl compare\"";

std::string JUnitReport(std::span<const compare::Comparison> comparisons,
                        const compare::ComparisonSetup& setup);
// A comparison that could not be made: one test case with an error.
std::string JUnitError(std::string_view message);

// Text for XML, in an attribute too. What XML cannot hold becomes \xNN.
std::string XmlText(std::string_view text);

}  // namespace muster::client
