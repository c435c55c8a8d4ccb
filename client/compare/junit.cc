#include "client/compare/junit.h"

#include <vector>

#include "absl/strings/str_replace.h"
#include "common/text/markup.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "compare/words.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;
using compare::By;
using compare::Comparison;
using compare::ComparisonSetup;
using compare::Limit;
using compare::NameOf;
using compare::PeopleNumber;
using compare::PeoplePercent;
using compare::Row;

// Consecutive rows that are one test case.
struct Case {
  int64_t first = 0;
  int64_t last = 0;
  uint64_t rows = 0;
  uint64_t past = 0;
  Row first_past;
};

std::vector<Case> CasesOf(const Comparison& pair, const Limit& limit) {
  const uint64_t per_case = (pair.differences.compared + kJUnitCasesMax - 1) / kJUnitCasesMax;
  std::vector<Case> cases;
  compare::Compare(pair.baseline, pair.run, limit, [&](const Row& row) {
    if (cases.empty() || cases.back().rows == per_case) cases.push_back({.first = row.at});
    Case& current = cases.back();
    current.last = row.at;
    ++current.rows;
    if (!row.past) return;
    if (current.past++ == 0) current.first_past = row;
  });
  return cases;
}

std::string CaseName(const Comparison& pair, const Case& of, By by) {
  if (of.rows == 1) return StrCat(pair.key, " ", NameOf(by), " ", of.first);
  return StrCat(pair.key, " ", NameOf(by), "s ", of.first, " to ", of.last);
}

std::string Failure(const Comparison& pair, const Case& of, const ComparisonSetup& setup) {
  const Row& row = of.first_past;
  const std::string where = StrCat(NameOf(setup.by), " ", row.at);
  std::string text =
      StrCat(where, ": ", pair.baseline_name, " ", PeopleNumber(row.baseline), ", ", pair.run_name,
             " ", PeopleNumber(row.value), ", difference ", PeopleNumber(row.abs), ", relative ",
             PeoplePercent(row.rel), "\nlimit: ", compare::LimitText(setup.limit));
  if (of.rows > 1) StrAppend(&text, "\n", of.past, " of ", of.rows, " are past the limit");
  return StrCat("<failure message=\"",
                XmlText(StrCat(where, ": relative difference ", PeoplePercent(row.rel),
                               " is past the limit")),
                "\" type=\"limit\">", XmlText(text), "</failure>");
}

}  // namespace

std::string XmlText(std::string_view text) {
  // Printable keeps these two, which XML 1.0 excludes.
  const std::string printable =
      absl::StrReplaceAll(common::Printable(text, /*keep_layout=*/true),
                          {{"\xEF\xBF\xBE", "\\ufffe"}, {"\xEF\xBF\xBF", "\\uffff"}});
  return absl::StrReplaceAll(common::EscapeMarkup(printable), {{"\n", "&#10;"}, {"\t", "&#9;"}});
}

std::string JUnitReport(std::span<const Comparison> comparisons, const ComparisonSetup& setup) {
  std::string suites;
  size_t tests = 0, failures = 0;
  for (const Comparison& pair : comparisons) {
    const std::string suite =
        XmlText(StrCat(pair.key, ": ", pair.run_name, " against ", pair.baseline_name));
    std::string body;
    size_t suite_tests = 0, suite_failures = 0;
    for (const Case& each : CasesOf(pair, setup.limit)) {
      StrAppend(&body, "    <testcase classname=\"", suite, "\" name=\"",
                XmlText(CaseName(pair, each, setup.by)), "\" time=\"0\"");
      ++suite_tests;
      if (each.past == 0) {
        body += "/>\n";
        continue;
      }
      ++suite_failures;
      StrAppend(&body, ">", Failure(pair, each, setup), "</testcase>\n");
    }
    StrAppend(&suites, "  <testsuite name=\"", suite, "\" tests=\"", suite_tests, "\" failures=\"",
              suite_failures, "\" errors=\"0\" skipped=\"0\" time=\"0\">\n", body,
              "  </testsuite>\n");
    tests += suite_tests;
    failures += suite_failures;
  }
  return StrCat(kJUnitHead, " tests=\"", tests, "\" failures=\"", failures, "\" errors=\"0\">\n",
                suites, "</testsuites>\n");
}

std::string JUnitError(std::string_view message) {
  const std::string text = XmlText(message);
  return StrCat(
      kJUnitHead,
      " tests=\"1\" failures=\"0\" errors=\"1\">\n  <testsuite name=\"compare\" tests=\"1\" "
      "failures=\"0\" errors=\"1\" skipped=\"0\" time=\"0\">\n    <testcase "
      "classname=\"compare\" name=\"compare\" time=\"0\"><error message=\"",
      text, "\" type=\"error\">", text, "</error></testcase>\n  </testsuite>\n</testsuites>\n");
}

}  // namespace muster::client
