// A comparison as people read it: the verdict, the summary, and a selection of rows. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compare/comparison.h"

namespace muster::compare {

std::string PeopleNumber(double value);     // six significant digits
std::string PeoplePercent(double share);    // "0.04831%"
std::string RowNumber(double value);        // nine significant digits
std::string LimitText(const Limit& limit);  // "|a-b| <= 0.0483% of |baseline|"

// "FAIL", "PASS", or "not judged" without a limit.
std::string_view VerdictOf(const Comparison& pair, const Limit& limit);
// The text after the verdict: "loss of text-4 against text-3: 30 steps, 2 past the limit".
std::string HeadOf(const Comparison& pair, By by);
// The lines below it: means and maxima, the limit, the first row past it, omissions.
std::vector<std::string> SummaryOf(const Comparison& pair, const ComparisonSetup& setup);

// At most about 40 rows: evenly spaced ones, the last one, and the significant ones.
std::vector<Row> ShownRows(const Comparison& pair, const Limit& limit);

}  // namespace muster::compare
